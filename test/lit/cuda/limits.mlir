// RUN: %tenon-opt --ptx=sm_80 %s | FileCheck %s --check-prefix=SM80
// RUN: %tenon-opt --ptx=sm_86 %s | FileCheck %s --check-prefix=SM86
// RUN: %tenon-opt --ptx=sm_89 %s | FileCheck %s --check-prefix=SM89
// RUN: %tenon-opt --ptx=sm_90 %s | FileCheck %s --check-prefix=SM90
// RUN: %tenon-opt --ptx=sm_90a %s | FileCheck %s --check-prefix=SM90A
// RUN: %tenon-opt --ptx=h100 %s | FileCheck %s --check-prefix=SM90A
// RUN: %tenon-opt --ptx=l40s %s | FileCheck %s --check-prefix=SM89
// RUN: %tenon-opt --ptx=sm_100 %s | FileCheck %s --check-prefix=SM100
// RUN: %tenon-opt --ptx=sm_120 %s | FileCheck %s --check-prefix=SM120
// Each architecture is laid out for by its own limits: two blocks of 64 KiB fit into 163 KiB of shared
// memory, one into 99, where there are then as many as multiprocessors; two take what 227 KiB leave.

// SM80: // kernel rows_staged{blocks_per_sm=2,{{.*}},keeps_reads=0,{{.*}},shared_bytes=65536,
// SM80: .version 8.0
// SM80-NEXT: .target sm_80
// SM86: // kernel rows_staged{blocks_per_sm=1,{{.*}}concurrent_groups=84,{{.*}},shared_bytes=65536,
// SM86: .target sm_86
// SM86-NOT: griddepcontrol
// SM89: // kernel rows_staged{blocks_per_sm=1,{{.*}}concurrent_groups=142,{{.*}},shared_bytes=65536,
// SM89: .target sm_89
// SM90: // kernel rows_staged{blocks_per_sm=2,{{.*}},keeps_reads=1,{{.*}},shared_bytes=77482,
// SM90: .version 8.1
// SM90-NEXT: .target sm_90
// SM90: griddepcontrol
// SM90A: // kernel rows_staged{blocks_per_sm=2,{{.*}},keeps_reads=1,{{.*}},shared_bytes=77482,
// SM90A: .target sm_90a
// SM100: // kernel rows_staged{blocks_per_sm=2,{{.*}},keeps_reads=0,{{.*}},shared_bytes=77482,
// SM100: .version 8.6
// SM120: // kernel rows_staged{blocks_per_sm=1,{{.*}}concurrent_groups=170,{{.*}},shared_bytes=65536,
// SM120: .version 8.7
// SM120-NEXT: .target sm_120
module {
  func.func @kernel(%x: tensor<16384x8192xf32>) -> tensor<16384x8192xf32> attributes {tn.strategy = "rows"} {
    %0 = tn.softmax %x {axis = 1 : i64} : tensor<16384x8192xf32>
    return %0 : tensor<16384x8192xf32>
  }
}
