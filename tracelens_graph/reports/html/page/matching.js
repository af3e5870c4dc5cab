// @ts-check
// Which texts a pattern fits, as a list of 0 and 1; case does not matter. Runs beside a page, too: it uses nothing else.
const fitting = (pattern, texts) => {
  const tried = new RegExp(pattern, "i");
  return Uint8Array.from(texts, (text) => (tried.test(text) ? 1 : 0));
};

// Which texts are found by what somebody types. Some patterns try so many ways that a browser would never come back from
// one of them: those run in a worker, which is ended after a while. Then the text itself is looked for.
class Matching {
  static MOST_MS = 1500;
  static QUICK_MS = 250;
  static TOO_LONG = "as text: this pattern would take too long";
  static NOT_HERE = "as text: such a pattern cannot be tried here";

  static plain(text) {
    return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  }

  // The pattern that a text is; the text itself where it is none.
  static patternOf(text) {
    try {
      const { source } = new RegExp(text, "i");
      return source && text;
    } catch {
      return Matching.plain(text);
    }
  }

  // Without groups and with one repetition at most there is little that can be tried.
  static isSimple(pattern) {
    const bare = pattern.replace(/\\[^\dk]/g, "x").replace(/\[(?:\\.|[^\]\\])*\]/g, "x");
    return !/[(\\]/.test(bare) && (bare.match(/[*+?{]/g) ?? []).length <= 1;
  }

  // Simple patterns on this page; null where even that takes long.
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

  constructor() {
    this.isBusy = false;
  }

  stop() {
    this.worker?.terminate();
    if (this.source) URL.revokeObjectURL(this.source);
    clearTimeout(this.timer);
    this.source = null;
    this.worker = null;
    this.isBusy = false;
  }

  // done(found, note): at once where that is quick, else later. Another search, or `stop`, ends the one before.
  find(text, texts, done) {
    this.stop();
    const pattern = Matching.patternOf(text);
    const found = Matching.isSimple(pattern) ? Matching.atOnce(pattern, texts) : null;
    if (found) {
      done(found, "");
      return;
    }
    const end = (fits, note) => {
      this.stop();
      done(fits, note);
    };
    const asText = (why) => end(fitting(Matching.plain(text), texts), why);
    try {
      const code = `onmessage = ({ data }) => postMessage((${fitting})(...data));`;
      this.source = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
      const worker = new Worker(this.source);
      this.isBusy = true;
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
