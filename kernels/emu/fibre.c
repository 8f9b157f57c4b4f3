#include "config.h"
#include "kernels/emu/fibre.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif
#ifdef HAVE_ASAN
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
enum { STACK = 512 << 10 };
#else
enum { STACK = 64 << 10 };
#endif

/* swapcontext makes a system call for the signal mask, which costs some
 * microseconds; these few instructions cost nanoseconds. */
#if defined(__x86_64__) && !defined(BN_FIBRE_UCONTEXT)
void bn_fibre_jump(void **save, void *to);
__asm__(".text\n"
        ".p2align 4\n"
        ".globl bn_fibre_jump\n"
        ".type bn_fibre_jump, @function\n"
        "bn_fibre_jump:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size bn_fibre_jump, . - bn_fibre_jump\n");

static void prepare(struct bn_fibre *f, void (*entry)(void), char *top)
{
    void **sp = (void **)((uintptr_t)top & ~(uintptr_t)15);

    /* A called function finds rsp + 8 aligned to 16. */
    *--sp = NULL;
    *--sp = (void *)(uintptr_t)entry;
    for (int i = 0; i < 6; i++)
        *--sp = NULL;
    f->sp = sp;
}

static void jump(struct bn_fibre *from, struct bn_fibre *to)
{
    bn_fibre_jump(&from->sp, to->sp);
}

static void drop(struct bn_fibre *f)
{
    f->sp = NULL;
}
#else
#include <stdlib.h>
#include <ucontext.h>

static ucontext_t *context(struct bn_fibre *f)
{
    if (f->sp == NULL)
        f->sp = calloc(1, sizeof(ucontext_t));
    if (f->sp == NULL)
        abort();
    return f->sp;
}

static void prepare(struct bn_fibre *f, void (*entry)(void), char *top)
{
    ucontext_t *c = context(f);

    getcontext(c);
    c->uc_stack.ss_sp = f->low;
    c->uc_stack.ss_size = (size_t)(top - f->low);
    c->uc_link = NULL;
    makecontext(c, entry, 0);
}

static void jump(struct bn_fibre *from, struct bn_fibre *to)
{
    swapcontext(context(from), context(to));
}

static void drop(struct bn_fibre *f)
{
    free(f->sp);
    f->sp = NULL;
}
#endif

int bn_fibre_init(struct bn_fibre *f, void (*entry)(void), unsigned index)
{
    size_t page = (size_t)sysconf(_SC_PAGE_SIZE);

    if (f->low == NULL) {
        char *p = mmap(NULL, STACK + page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (p == MAP_FAILED)
            return -1;
        (void)mprotect(p, page, PROT_NONE);
        f->low = p + page;
        f->size = STACK;
    }
#ifdef HAVE_ASAN
    __asan_unpoison_memory_region(f->low, f->size);
#endif
    f->fake = NULL;
    prepare(f, entry, f->low + f->size - index % 60 * 64);
    return 0;
}

void bn_fibre_release(struct bn_fibre *f)
{
    size_t page = (size_t)sysconf(_SC_PAGE_SIZE);

    if (f->low != NULL)
        munmap(f->low - page, f->size + page);
    drop(f);
    memset(f, 0, sizeof(*f));
}

void bn_fibre_host(struct bn_fibre *f)
{
    memset(f, 0, sizeof(*f));
#ifdef HAVE_ASAN
    pthread_attr_t attr;
    void *low;

    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return;
    if (pthread_attr_getstack(&attr, &low, &f->size) == 0)
        f->low = low;
    pthread_attr_destroy(&attr);
#endif
}

void bn_fibre_entered(void)
{
#ifdef HAVE_ASAN
    const void *low;
    size_t size;

    __sanitizer_finish_switch_fiber(NULL, &low, &size);
#endif
}

void bn_fibre_switch(struct bn_fibre *from, struct bn_fibre *to)
{
#ifdef HAVE_ASAN
    const void *low;
    size_t size;

    __sanitizer_start_switch_fiber(&from->fake, to->low, to->size);
    jump(from, to);
    __sanitizer_finish_switch_fiber(from->fake, &low, &size);
#else
    jump(from, to);
#endif
}
