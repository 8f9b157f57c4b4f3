# src/data
noinst_LIBRARIES += src/data/libdata.a
src_data_libdata_a_SOURCES = src/data/batch.c src/data/batch.h
DATA_LIBS = src/data/libdata.a $(BASE_LIBS)
