#include "config.h"

#include "sweep/here.h"

#include <limits.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

char *bn_program_dir(void)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (n < 0)
        return bn_strdup(".");
    exe[n] = '\0';
    return bn_path_dir(exe);
}
