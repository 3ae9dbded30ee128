; Nested closed regions, containers, absent operands of a loop.
weight @true : bool[] = [true]
sym K in [0, 64] unbacked
entry func @main(%c : bool[] "c", %x : f32[4] "x", %n : s64[] "n", %list : seq<opt<f32[K,4]>> "list") -> ("y", "stack") {
  %r = if %c, %x : f32[4] loc(text "r" 1:1) {
    (%a : f32[4])
    %b = neg %a : f32[4]
    yield %b
  } { (%a : f32[4])
    %cc = const {weight=@true} : bool[]
    %b = if %cc, %a : f32[4] { (%z : f32[4]) yield %z } { (%z : f32[4]) %w = abs %z : f32[4] yield %w }
    yield %b
  }
  %fin, %stack = loop %n, _, %r, %x {n_carried=1, n_scanned=0} : f32[4], f32[K,4] {
    (%i : s64[], %state : f32[4], %captured : f32[4])
    %t = const {weight=@true} : bool[]
    %next = add %state, %captured : f32[4]
    yield %t, %next, %next
  }
  yield %fin, %stack
}
