// @ts-check
// Columns of numbers from compressed byte planes. Runs in the worker, and on the page where it may have none.
const Planes = {
  bytes(base64) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
    const text = atob(base64),
      found = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) found[i] = text.charCodeAt(i);
    return found;
  },

  async inflate(base64) {
    const stream = new Blob([Planes.bytes(base64)]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  },

  // described: {name, n, planes, delta} for each column, in order. Numbers above 2^53 are rounded.
  columns(described, bytes) {
    const found = {};
    let at = 0;
    for (const { name, n, planes, delta } of described) {
      const isSmall = planes < 4 && !delta;
      const values = isSmall ? new Int32Array(n) : new Float64Array(n);
      for (let plane = 0, size = 1; plane < planes; plane++, size *= 256) {
        const part = bytes.subarray(at, at + n);
        for (let i = 0; i < n; i++) values[i] += part[i] * size;
        at += n;
      }
      if (delta) {
        let sum = 0;
        for (let i = 0; i < n; i++) values[i] = sum += Planes.signed(values[i]);
      }
      found[name] = values;
    }
    return found;
  },

  signed(value) {
    return value % 2 ? -(value + 1) / 2 : value / 2;
  },
};
