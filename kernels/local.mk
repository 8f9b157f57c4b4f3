# kernels: contracts here, plain C in double in ref/, tuned C in cpu/
KERNEL_HEADERS = kernels/segment.h kernels/embed.h kernels/rmsnorm.h \
	kernels/headnorm.h kernels/rope.h kernels/attn.h kernels/swiglu.h \
	kernels/head.h kernels/adamw.h kernels/sqnorm.h kernels/rows.h \
	kernels/add.h kernels/cast.h
EXTRA_DIST += $(KERNEL_HEADERS)
