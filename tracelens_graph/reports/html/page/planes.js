// @ts-check
// Columns of numbers from compressed byte planes. Runs in the worker, and on the page where it may have none.
export const Planes = {
  /** @param {string} base64 */
  bytes(base64) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
    return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  },

  /** @param {string} base64 */
  async inflate(base64) {
    const stream = new Blob([Planes.bytes(base64)]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  },

  // The columns that are described, in their order. Numbers above 2^53 are rounded.
  /** @param {Described[]} described @param {Uint8Array} bytes */
  columns(described, bytes) {
    /** @type {Columns} */
    const found = {};
    let at = 0;
    for (const { name, n, planes, delta } of described) {
      const values = planes < 4 && !delta ? new Int32Array(n) : new Float64Array(n);
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

  /** @param {number} value */
  signed: (value) => (value % 2 ? -(value + 1) / 2 : value / 2),
};

// The columns of a part of the page, by the rest of their names.
/**
 * @template {string} Name
 * @param {Columns} columns
 * @param {string} part
 * @param {Name[]} names
 */
export const columnsOf = (columns, part, names) =>
  /** @type {Record<Name, Numbers>} */ (Object.fromEntries(names.map((name) => [name, columns[`${part}.${name}`]])));
