; Names that must not break a page, in loops and branches within each other; a loop of no known bound.
weight @"w</script><script>document.title=1</script><!--\"\\" : f32[4,4] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
weight @"limit" : f32[] = [9]
weight @"three" : s64[] = [3]
weight @"yes" : bool[] = [true]
entry func @main(%x : f32[4,4] "x</script><script>document.title=1</script><!--\"\\", %n : s64[] "n & <b>'ü日本", %c : bool[] "c") -> ("y</script><script>document.title=1</script><!--\"\\", "z") {
  %w = const {weight=@"w</script><script>document.title=1</script><!--\"\\"} : f32[4,4]
  %limit = const {weight=@"limit"} : f32[]
  %three = const {weight=@"three"} : s64[]
  %yes = const {weight=@"yes"} : bool[]
  %a = dot %x, %w {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[4,4] loc(onnx "m" "" 0 "a</script><script>document.title=1</script><!--\"\\" "MatMul")
  %b = cumulate %a {axis=0, kind="sum", exclusive=false, reverse=false} : f32[4,4] loc(onnx "m" "" 1 "b & <i>'ü" "CumSum")
  %y = loop %n, _, %b, %w, %limit, %three, %yes {n_carried=1, n_scanned=0} : f32[4,4] loc(onnx "m" "" 2 "outer" "Loop") {
    (%i : s64[], %s : f32[4,4], %wi : f32[4,4], %li : f32[], %ti : s64[], %yi : bool[])
    %sum = reduce %s {axes=[0,1], kind="sum"} : f32[] loc(onnx "m" "" 3 "sum" "ReduceSum")
    %small = lt %sum, %li : bool[] loc(onnx "m" "" 4 "less" "Less")
    %next = if %small, %s, %wi, %ti, %yi : f32[4,4] loc(onnx "m" "" 5 "choose" "If") {
      (%p : f32[4,4], %wp : f32[4,4], %tp : s64[], %yp : bool[])
      %q = loop %tp, _, %p, %wp, %yp {n_carried=1, n_scanned=0} : f32[4,4] loc(onnx "m" "" 6 "inner" "Loop") {
        (%j : s64[], %r : f32[4,4], %wr : f32[4,4], %yr : bool[])
        %e = exp %r : f32[4,4] loc(onnx "m" "" 7 "exp" "Exp")
        %m = dot %e, %wr {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[4,4] loc(onnx "m" "" 8 "inner/mm" "MatMul")
        yield %yr, %m
      }
      yield %q
    } {
      (%p : f32[4,4], %wp : f32[4,4], %tp : s64[], %yp : bool[])
      yield %p
    }
    yield %yi, %next
  }
  %z = if %c, %y, %w : f32[4,4] loc(onnx "m" "" 9 "last" "If") {
    (%p : f32[4,4], %wp : f32[4,4])
    yield %p
  } {
    (%p : f32[4,4], %wp : f32[4,4])
    %m = dot %p, %wp {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[4,4] loc(onnx "m" "" 10 "mm" "MatMul")
    yield %m
  }
  yield %y, %z
}
