# src/tensor: element formats
noinst_LIBRARIES += src/tensor/libtensor.a
src_tensor_libtensor_a_SOURCES = src/tensor/convert.c src/tensor/convert.h
TENSOR_LIBS = src/tensor/libtensor.a $(BASE_LIBS)

if HAVE_CMOCKA
TENSOR_TESTS = src/tensor/test/convert.t
check_PROGRAMS += $(TENSOR_TESTS)
TESTS += $(TENSOR_TESTS)
src_tensor_test_convert_t_SOURCES = src/tensor/test/convert.c
src_tensor_test_convert_t_LDADD = $(TENSOR_LIBS) $(CMOCKA_LIBS)
endif
