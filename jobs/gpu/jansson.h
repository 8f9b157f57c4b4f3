/* For a GPU machine without jansson: headers on the way to a step name its
 * type, nothing that is built there uses it. jobs/gpu-check.sh puts this
 * folder on the include path only there.
 */
#ifndef BN_JOBS_GPU_JANSSON_H
#define BN_JOBS_GPU_JANSSON_H

typedef struct json_t json_t;

#endif
