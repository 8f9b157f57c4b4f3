/* burnish doctor --core: what a core file tells. Its notes are read here, so
 * that something is said without a debugger too.
 */
#include "config.h"
#include "cmd/doctor.h"
#include "base/file.h"
#include "base/mem.h"
#include "cmd/cmd.h"

#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <unistd.h>

struct core {
    struct bn_map map;
    int signal, pid, threads;
    char command[17], arguments[81];
    char *program; /* NULL: not in the file */
};

/* NT_FILE: count, page size, count ranges, then as many names. */
static char *first_file(const char *p, size_t n)
{
    uint64_t count;

    if (n < 16)
        return NULL;
    memcpy(&count, p, sizeof(count));
    if (count == 0 || count > (n - 16) / 24)
        return NULL;
    const char *name = p + 16 + count * 24;
    size_t len = strnlen(name, (size_t)(p + n - name));

    return len < (size_t)(p + n - name) ? bn_strdup(name) : NULL;
}

static void note(struct core *c, unsigned type, const char *p, size_t n)
{
    struct elf_prstatus st;
    struct elf_prpsinfo ps;

    if (type == NT_PRSTATUS && n >= sizeof(st)) {
        memcpy(&st, p, sizeof(st));
        if (c->threads++ == 0) { /* the one that died comes first */
            c->signal = st.pr_cursig;
            c->pid = st.pr_pid;
        }
    } else if (type == NT_PRPSINFO && n >= sizeof(ps)) {
        memcpy(&ps, p, sizeof(ps));
        memcpy(c->command, ps.pr_fname, sizeof(c->command) - 1);
        memcpy(c->arguments, ps.pr_psargs, sizeof(c->arguments) - 1);
    } else if (type == NT_FILE && c->program == NULL) {
        c->program = first_file(p, n);
    }
}

static size_t up4(size_t n)
{
    return (n + 3) / 4 * 4;
}

static void notes(struct core *c, const char *p, size_t n)
{
    Elf64_Nhdr h;

    while (n >= sizeof(h)) {
        memcpy(&h, p, sizeof(h));
        size_t name = up4(h.n_namesz), desc = up4(h.n_descsz);

        if (name > n - sizeof(h) || desc > n - sizeof(h) - name)
            return;
        note(c, h.n_type, p + sizeof(h) + name, h.n_descsz);
        p += sizeof(h) + name + desc;
        n -= sizeof(h) + name + desc;
    }
}

static int read_core(struct core *c, const char *path, struct bn_err *err)
{
    Elf64_Ehdr e;
    Elf64_Phdr ph;

    if (bn_map_open(&c->map, path, err) < 0)
        return -1;
    if (c->map.len < sizeof(e)
        || (memcpy(&e, c->map.data, sizeof(e)),
            memcmp(e.e_ident, ELFMAG, SELFMAG) != 0)
        || e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_type != ET_CORE)
        return bn_fail(err, BN_ERR_DATA, "'%s' is no core file of a 64-bit "
                       "program (is it compressed? coredumpctl dump -o core)",
                       path);
    for (int i = 0; i < e.e_phnum; i++) {
        uint64_t at = e.e_phoff + (uint64_t)i * sizeof(ph);

        if (at > c->map.len || c->map.len - at < sizeof(ph))
            return bn_fail(err, BN_ERR_DATA, "'%s' is cut off: was the disk "
                           "full, or 'ulimit -c' too small?", path);
        memcpy(&ph, c->map.data + at, sizeof(ph));
        if (ph.p_type == PT_NOTE && ph.p_offset < c->map.len
            && ph.p_filesz <= c->map.len - ph.p_offset)
            notes(c, c->map.data + ph.p_offset, ph.p_filesz);
    }
    return 0;
}

/* The lines of gdb that say something: not what it loads, nor advice. */
static bool useful(const char *line)
{
    return line[0] == '#' || strncmp(line, "Thread ", 7) == 0
           || strncmp(line, "Program terminated", 18) == 0
           || (line[0] == ' ' && line[1] == ' ');
}

static void gdb(const struct bn_doctor *d, const struct core *c,
                const char *path)
{
    const char *const argv[] = {"gdb", "-nx", "-batch", "-iex",
                                "set debuginfod enabled off", "-ex",
                                "thread apply all bt 40", c->program, path,
                                NULL};
    struct bn_err err;
    char *out = bn_doctor_ask(d, argv, &err);

    if (out == NULL) {
        printf("no stacks: %s\n(Debian: apt install gdb; or on a machine that "
               "has it: gdb -batch -ex 'thread apply all bt' %s %s)\n",
               err.text, c->program, path);
        return;
    }
    for (char *at = out; *at != '\0';) {
        size_t n = strcspn(at, "\n");
        char end = at[n];

        at[n] = '\0';
        if (useful(at))
            puts(at);
        at += n + (end != '\0');
    }
    free(out);
}

int bn_doctor_core(const struct bn_doctor *d, const char *path)
{
    struct core c = {0};
    struct bn_err err;
    int status = 0;

    if (read_core(&c, path, &err) < 0) {
        status = bn_cmd_fail("doctor", &err);
    } else {
        printf("program   %s (%s)\n", c.program != NULL ? c.program : "?",
               c.command);
        printf("command   %s\n", c.arguments);
        printf("signal    %d (%s) in process %d, of %d thread%s\n", c.signal,
               strsignal(c.signal), c.pid, c.threads,
               c.threads == 1 ? "" : "s");
        if (c.program == NULL)
            printf("no stacks: the file does not name its program\n");
        else if (access(c.program, R_OK) != 0)
            printf("no stacks: '%s' is not here; look on the node where it "
                   "ran\n", c.program);
        else
            gdb(d, &c, path);
    }
    free(c.program);
    bn_map_close(&c.map);
    return status;
}
