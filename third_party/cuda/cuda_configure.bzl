"""Finds a CUDA toolkit, if there is one, and describes it as @local_cuda.

`@local_cuda//:cuda` is an empty library and `CUDA_AVAILABLE` is False where no toolkit is found, so nothing in
the build depends on its presence.
"""

_FOUND = """
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "cuda",
    hdrs = glob(["include/**"], allow_empty = True),
    includes = ["include"],
    linkopts = ["-L{root}/lib64", "-Wl,-rpath,{root}/lib64", "-lcublas", "-lcudart"],
    defines = ["SHOAL_HAVE_CUDA=1"],
)
"""

_ABSENT = """
package(default_visibility = ["//visibility:public"])

cc_library(name = "cuda")
"""

def _cuda_configure_impl(ctx):
    root = ctx.os.environ.get("CUDA_HOME", "/usr/local/cuda")
    nvcc = ctx.path(root + "/bin/nvcc")
    header = ctx.path(root + "/include/cublas_v2.h")
    library = ctx.path(root + "/lib64/libcublas.so")
    found = nvcc.exists and header.exists and library.exists and ctx.os.environ.get("SHOAL_CUDA", "auto") != "off"
    if found:
        ctx.symlink(root + "/include", "include")
        ctx.file("BUILD.bazel", _FOUND.format(root = root))
    else:
        ctx.file("BUILD.bazel", _ABSENT)
    ctx.file("defs.bzl", "CUDA_AVAILABLE = {}\nNVCC = \"{}\"\n".format(found, nvcc if found else ""))

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    environ = ["CUDA_HOME", "SHOAL_CUDA"],
    local = True,
)
