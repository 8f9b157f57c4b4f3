# kernels/emu: CUDA sources on the host. kernels/emu/obj/NAME.o is
# kernels/cuda/NAME.cu made by the C++ compiler; nothing of the C++ library is
# needed, so that C links it.
noinst_LIBRARIES += kernels/emu/libemu.a
kernels_emu_libemu_a_SOURCES = \
	kernels/emu/copy.c kernels/emu/emu.h kernels/emu/fibre.c kernels/emu/fibre.h \
	kernels/emu/graph.c kernels/emu/graph.h \
	kernels/emu/lang.h kernels/emu/launch.c kernels/emu/memory.c \
	kernels/emu/names.c \
	kernels/emu/ptx.h kernels/emu/runtime.c kernels/emu/runtime.h \
	kernels/emu/sched.c kernels/emu/state.h
EMU_LIBS = kernels/emu/libemu.a -lm

EMU_CXX = $(CXX) -x c++ -std=c++17 -DBN_EMU $(DEFS) $(AM_CPPFLAGS) \
	$(CPPFLAGS) -fno-exceptions -fno-rtti -ffp-contract=off \
	-Wno-unknown-pragmas $(AM_CXXFLAGS) -O2 -g
kernels/emu/obj/%.o: kernels/cuda/%.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && \
	$(EMU_CXX) -MD -MP -MF $@.d -c $< -o $@
kernels/emu/test/%.o: kernels/emu/test/%.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && \
	$(EMU_CXX) -MD -MP -MF $@.d -c $< -o $@
-include $(wildcard kernels/emu/obj/*.d kernels/emu/test/*.o.d)
MOSTLYCLEANFILES += kernels/emu/obj/*.o kernels/emu/obj/*.d \
	kernels/emu/test/*.o kernels/emu/test/*.o.d
EXTRA_DIST += kernels/emu/test/lang.cu

# Under AddressSanitizer, whatever the rest is built with
if ASAN
check_PROGRAMS += kernels/emu/test/past
TESTS += kernels/emu/test/past.sh
kernels_emu_test_past_SOURCES = kernels/emu/test/past.c \
	kernels/emu/test/lang.h $(kernels_emu_libemu_a_SOURCES)
kernels_emu_test_past_CFLAGS = $(AM_CFLAGS) -fsanitize=address
kernels_emu_test_past_LDFLAGS = $(AM_LDFLAGS) -fsanitize=address
kernels_emu_test_past_LDADD = kernels/emu/test/lang-asan.o -lm
kernels/emu/test/past.log: kernels/emu/test/past
kernels/emu/test/lang-asan.o: kernels/emu/test/lang.cu
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(EMU_CXX) -fsanitize=address \
		-MD -MP -MF $@.d -c $(srcdir)/kernels/emu/test/lang.cu -o $@
endif
EXTRA_DIST += kernels/emu/test/past.sh

if HAVE_CMOCKA
EMU_TESTS = kernels/emu/test/emu.t
check_PROGRAMS += $(EMU_TESTS)
TESTS += $(EMU_TESTS)
kernels_emu_test_emu_t_SOURCES = kernels/emu/test/emu.c kernels/emu/test/lang.h
kernels_emu_test_emu_t_LDADD = kernels/emu/test/lang.o $(EMU_LIBS) \
	$(CMOCKA_LIBS)
endif
