# How lit runs the IR tests: each .mlir file's RUN lines, with tenon-opt and LLVM's FileCheck.
import os
import lit.formats

config.name = "Tenon"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(os.environ["TENON_BUILD_DIR"], "test", "lit")
config.substitutions.append(("%tenon-opt", os.environ["TENON_OPT"]))
config.environment["PATH"] = os.pathsep.join([os.environ["TENON_LLVM_TOOLS"], os.environ["PATH"]])
config.environment["FILECHECK_OPTS"] = "--dump-input-filter=error"
