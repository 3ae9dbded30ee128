sym N in [1, 512] sym M in [0, 7]
entry func @f(%x : f32[max(min(N*M*M,-3+floordiv(7*N-5,mod(N,4)+1)),2), floordiv(min(N,M)-N,-3)+9] "x") -> ("y") {
  %d = dimval {dim=-9223372036854775808*N*M - 9223372036854775808} : s64[] yield %d }
