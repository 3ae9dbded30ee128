; Every attribute kind, optional operands, several results, symbolic sizes. Values may have any name here.
sym N in [1, 512]
sym "batch size" in [0, 9223372036854775807]
sym U in [0, 1024] unbacked
sym floordiv in [2, 3]           // a name is no keyword
meta "producer" "by \"hand\"\n\t\x01\\"
meta "" ""
weight @w : f32[2,2] = [1, -0x1p-3, nan, inf]
weight @"odd name/0" : s64[3] = [-9223372036854775808, 0, 9223372036854775807]
weight @axes : s64[0] = []
state @kv : f16[2,8]
state @moments : f32[N,min(N,4)]

func @helper(%a : f32[N,4]) -> ("") {
  %b = leaky_relu %a {alpha=0x1.47ae147ae147bp-7} : f32[N,4]
  yield %b
}

entry func @main(%x : f32[N,4] "x", %mask : f32[1,1,3*N+2,N] "attention mask") -> ("y", "z", "top", "where") {
  %c = const {weight=@w} : f32[2,2]
  %r = reduce %x {axes=[1], kind=sum} : f32[N,1]
  %s = softmax %x {norm=div, axes=[1]} : f32[N,4]
  %t = cast %s {dtype=bf16} : bf16[N,4]
  %q = reshape %x {shape=[floordiv(N+1,2), 2*N - 2*floordiv(N,2), "batch size", mod(N,3), min(N,7), max(N,7)*U]} : f32[1]
  %d = dimval {dim=3*N+2} : s64[]
  %i = iota {dtype=s64, shape=[N,4], axis=0} : s64[N,4]
  %e = elu %x {alpha=-0} : f32[N,4]
  %f = celu %e {alpha=bits 0x7ff8000000000001} : f32[N,4]
  %g = silu %f {alpha=-inf} : f32[N,4]
  %k1, %k2 = topk %g {axis=1, size=min(N,2), kind=max} : f32[N,min(N,2)], s64[N,min(N,2)]
  %h = call %g {func=@helper} : f32[N,4]
  %l = call %h {func=@later} : f32[N,4]
  %v = cumulate %l {axis=0, kind=prod, exclusive=true, reverse=false} : f32[N,4]
  %n = layer_norm %v, %v, _ {axes=[-1], epsilon=1e-05} : f32[N,4]
  yield %n, %t, %k1, %k2
}

func @later(%a : f32[N,4] "in") -> ("out") { %b = neg %a : f32[N,4] yield %b }
