// @ts-check
// Which texts are found by what somebody types. Some patterns try so many ways that a browser would never come back from
// one of them: those run in a worker, which is ended after a while. Then the text itself is looked for.

// Which texts a pattern fits, as a list of 0 and 1; case does not matter. Runs in a worker, too: it uses nothing else.
/** @param {string} pattern @param {string[]} texts */
const fitting = (pattern, texts) => {
  const tried = new RegExp(pattern, "i");
  return Uint8Array.from(texts, (text) => (tried.test(text) ? 1 : 0));
};

// Called with what was found, and with notes on it.
/** @typedef {(found: Uint8Array, note: string) => void} Done */

export class Matching {
  static MOST_MS = 1500;
  static QUICK_MS = 250;
  static TOO_LONG = "as text: this pattern would take too long";
  static NOT_HERE = "as text: such a pattern cannot be tried here";

  /** @type {Worker | null} */
  worker = null;
  timer = 0;
  source = "";

  /** @param {string} text */
  static plain(text) {
    return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  }

  /** The pattern that a text is; the text itself where it is none. @param {string} text */
  static patternOf(text) {
    try {
      RegExp(text, "i");
      return text;
    } catch {
      return Matching.plain(text);
    }
  }

  /** Without groups and with one repetition at most there is little that can be tried. @param {string} pattern */
  static isSimple(pattern) {
    const bare = pattern.replace(/\\[^\dk]/g, "x").replace(/\[(?:\\.|[^\]\\])*\]/g, "x");
    return !/[(\\]/.test(bare) && (bare.match(/[*+?{]/g) ?? []).length <= 1;
  }

  /** Simple patterns on this page; null where even that takes long. @param {string} pattern @param {string[]} texts */
  static atOnce(pattern, texts) {
    const tried = new RegExp(pattern, "i"),
      found = new Uint8Array(texts.length),
      until = performance.now() + Matching.QUICK_MS;
    for (let k = 0; k < texts.length; k++) {
      if (k % 64 === 63 && performance.now() > until) return null;
      found[k] = tried.test(texts[k]) ? 1 : 0;
    }
    return found;
  }

  get isBusy() {
    return !!this.worker;
  }

  stop() {
    this.worker?.terminate();
    if (this.source) URL.revokeObjectURL(this.source);
    clearTimeout(this.timer);
    this.source = "";
    this.worker = null;
  }

  // At once where that is quick, else later. Another search, or `stop`, ends the one before.
  /** @param {string} text @param {string[]} texts @param {Done} done */
  find(text, texts, done) {
    this.stop();
    const pattern = Matching.patternOf(text);
    const found = Matching.isSimple(pattern) ? Matching.atOnce(pattern, texts) : null;
    if (found) {
      done(found, "");
      return;
    }
    /** @type {Done} */
    const end = (fits, note) => {
      this.stop();
      done(fits, note);
    };
    /** @param {string} why */
    const asText = (why) => end(fitting(Matching.plain(text), texts), why);
    try {
      const code = `onmessage = ({ data }) => postMessage((${fitting})(...data));`;
      this.source = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
      const worker = new Worker(this.source);
      this.worker = worker;
      this.timer = setTimeout(() => asText(Matching.TOO_LONG), Matching.MOST_MS);
      worker.onmessage = ({ data }) => end(data, "");
      worker.onerror = (event) => {
        event.preventDefault();
        asText(Matching.NOT_HERE);
      };
      worker.postMessage([pattern, texts]);
    } catch {
      asText(Matching.NOT_HERE);
    }
  }
}
