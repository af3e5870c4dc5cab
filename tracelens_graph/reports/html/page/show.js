// @ts-check
// Numbers and names as people read them.

/** @type {[string, number][]} */
const UNITS = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

// What names begin with that all of a kind share.
const LEAD = /^(?:autograd::engine::evaluate_function: |(?:\w+::)+|nccl\w*?Kernel_)(?=.)/;

export const Show = {
  /** @param {number} n */
  count: (n) => n.toLocaleString("en-US"),

  /** @param {number} value @param {number} digits */
  number: (value, digits) =>
    value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }),

  /** The first of the units, from seconds down, that fits; else nanoseconds. @param {(size: number) => boolean} fits */
  unit: (fits) => UNITS.find(([, size]) => fits(size)) ?? UNITS[3],

  /** A span in the unit that leaves one to three digits before the point. @param {number} ns */
  span(ns) {
    const [unit, size] = Show.unit((one) => Math.abs(ns) >= one);
    return `${(ns / size).toLocaleString("en-US", { minimumFractionDigits: size > 1 ? 3 : 0, maximumFractionDigits: 3 })} ${unit}`;
  },

  /** What is in view of a whole. @param {Span} view @param {number} whole */
  inView: ({ from, to }, whole) =>
    `${Show.span(to - from)} in view${to - from < whole ? ` of ${Show.span(whole)}` : ""}`,

  /** Bytes in the unit that leaves one to four digits before the point. @param {number} bytes */
  bytes: (bytes) => Show.bytesAs(bytes, bytes, 2),

  // The same in the unit that suits another number of bytes: that of the greatest one beside it.
  /** @param {number} bytes @param {number} other @param {number} digits */
  bytesAs(bytes, other, digits) {
    const power = Show.power(other);
    return `${Show.number(bytes / 1024 ** power, power ? digits : 0)} ${BYTES[power]}`;
  },

  /** Of 1024: 0 for bytes, 1 for KiB. @param {number} bytes */
  power: (bytes) => Math.min(Math.floor(Math.log2(Math.max(Math.abs(bytes), 1)) / 10), 5),

  /** A moment, in ms from the zero of Perfetto UI, to the nanosecond. @param {number} ns */
  moment: (ns) => `${Show.number(ns / 1e6, 6)} ms`,

  /** @param {number} part @param {number} whole */
  percent: (part, whole) => `${whole ? ((100 * part) / whole).toFixed(1) : "0.0"} %`,

  // A name within a room: first goes what all such names begin with. Of modules of one class, the number separates them.
  /** @param {string} text @param {number} room */
  label(text, room) {
    if (text.length <= room) return text;
    const number = /^[A-Z]\w*(_\d+)$/.exec(text)?.[1];
    if (!number) return Show.cut(text.replace(LEAD, ""), room);
    const head = room - number.length - 1;
    return head < 0 ? "" : `${head < 3 ? "" : text.slice(0, head)}…${number}`;
  },

  /** @param {string} text @param {number} room */
  cut: (text, room) => (text.length <= room ? text : room < 3 ? "" : `${text.slice(0, room - 1)}…`),

  /** The distance of round marks of an axis, at least so much. @param {number} rough */
  step(rough) {
    const power = 10 ** Math.floor(Math.log10(rough || 1));
    return [1, 2, 5, 10].map((k) => k * power).find((one) => one >= rough) || 10 * power;
  },
};
