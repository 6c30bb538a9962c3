"""proto_cc: C++ code from one .proto by the system's protoc."""

def proto_cc(name, src, deps = [], grpc = False, visibility = None):
    """A cc_library with the code of `src` (a file of this package).

    Args:
      name: name of the library.
      src: the .proto file.
      deps: other proto_cc libraries of any package that it imports.
      grpc: also generate the gRPC service code.
      visibility: of the library.
    """
    stem = src[:-len(".proto")]
    outs = [stem + ".pb.h", stem + ".pb.cc"]
    flags = "--cpp_out=$(GENDIR)"
    if grpc:
        outs += [stem + ".grpc.pb.h", stem + ".grpc.pb.cc"]
        flags += " --grpc_out=$(GENDIR) --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin"
    native.filegroup(
        name = name + "_src",
        srcs = [src] + [d + "_src" for d in deps],
        visibility = ["//visibility:public"],
    )
    native.genrule(
        name = name + "_gen",
        srcs = [":" + name + "_src"],
        outs = outs,
        cmd = "protoc -I. -I/usr/include {} {}/{}".format(flags, native.package_name(), src),
    )
    native.cc_library(
        name = name,
        srcs = [o for o in outs if o.endswith(".cc")],
        hdrs = [o for o in outs if o.endswith(".h")],
        copts = ["-w"],
        visibility = visibility,
        deps = deps + (["//third_party:grpc"] if grpc else ["//third_party:protobuf"]),
    )
