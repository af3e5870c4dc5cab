// @ts-check
// Merged stacks: values of frames in one step or all, inverted on request, and where frames stand.
const Stacks = {
  // Callers that an inverted stack has; what is above them is left out, and no time is lost.
  DEEPEST: 500,
  // Share of the widest from which on frames count as equally wide.
  EQUAL: 0.95,
  MOST_NAMES: 2 ** 26,

  // Frames of a view as {parent, name, first, total, own, count, uid}; a frame comes after the one it is in.
  of(columns, view, step, isInverted) {
    const read = (part) => columns[`${view}.${part}`];
    const parent = Int32Array.from(read("parent"), (value) => value - 1),
      name = read("name"),
      n = parent.length;
    const parts = { frame: read("frame"), step: read("step"), ns: read("ns"), count: read("count"), uid: read("uid") };
    if (isInverted) return Stacks.inverted(parent, name, read("first"), parts, step);
    const made = Stacks.empty(parent, name, read("first"), n);
    for (let i = 0; i < parts.frame.length; i++) {
      if (step && parts.step[i] !== step) continue;
      const frame = parts.frame[i];
      made.own[frame] += parts.ns[i];
      made.count[frame] += parts.count[i];
      if (parts.ns[i] >= made.most[frame]) {
        made.most[frame] = parts.ns[i];
        made.uid[frame] = parts.uid[i];
      }
    }
    return Stacks.summed(made);
  },

  empty: (parent, name, first, n) => ({
    parent,
    name,
    first,
    n,
    own: new Float64Array(n),
    total: new Float64Array(n),
    count: new Float64Array(n),
    most: new Float64Array(n).fill(-1),
    uid: new Float64Array(n).fill(-1),
  }),

  // The innermost frames outside: who is above a kernel, with its time.
  inverted(parent, name, first, parts, step) {
    const parents = [],
      names = [],
      firsts = [],
      known = new Map(),
      leaves = [];
    for (let i = 0; i < parts.frame.length; i++) {
      if (step && parts.step[i] !== step) continue;
      let at = -1;
      for (
        let frame = parts.frame[i], depth = 0;
        frame >= 0 && depth < Stacks.DEEPEST;
        frame = parent[frame], depth++
      ) {
        const key = (at + 1) * Stacks.MOST_NAMES + name[frame];
        let next = known.get(key);
        if (next === undefined) {
          next = parents.push(at) - 1;
          names.push(name[frame]);
          firsts.push(first[frame]);
          known.set(key, next);
        } else if (first[frame] < firsts[next]) firsts[next] = first[frame];
        at = next;
      }
      leaves.push(at, i);
    }
    const made = Stacks.empty(
      Int32Array.from(parents),
      Int32Array.from(names),
      Float64Array.from(firsts),
      parents.length,
    );
    for (let k = 0; k < leaves.length; k += 2) {
      const frame = leaves[k],
        i = leaves[k + 1];
      made.own[frame] += parts.ns[i];
      made.count[frame] += parts.count[i];
      if (parts.ns[i] >= made.most[frame]) [made.most[frame], made.uid[frame]] = [parts.ns[i], parts.uid[i]];
    }
    return Stacks.summed(made);
  },

  summed(made) {
    const { n, parent, own, total, count, most, uid } = made;
    total.set(own);
    made.sum = 0;
    made.events = 0;
    for (let frame = n - 1; frame >= 0; frame--) {
      const above = parent[frame];
      if (above < 0) {
        made.sum += total[frame];
        made.events += count[frame];
        continue;
      }
      total[above] += total[frame];
      count[above] += count[frame];
      if (most[frame] > most[above]) [most[above], uid[above]] = [most[frame], uid[frame]];
    }
    Stacks.children(made);
    return made;
  },

  // Children of each frame, side by side: those of frame f are `kids[from[f + 1] .. from[f + 2])`, the roots' f is -1.
  children(made) {
    const { n, parent } = made,
      from = new Int32Array(n + 2),
      kids = new Int32Array(n);
    for (let frame = 0; frame < n; frame++) if (parent[frame] + 2 < n + 2) from[parent[frame] + 2]++;
    for (let i = 1; i < n + 2; i++) from[i] += from[i - 1];
    const next = from.slice();
    for (let frame = 0; frame < n; frame++) kids[next[parent[frame] + 1]++] = frame;
    made.kids = (frame) => kids.subarray(from[frame + 1], from[frame + 2] ?? n);
  },

  // Frames side by side: by time, or the widest first. Those of about one width keep the order of time, as the layers
  // of a model have it.
  ordered({ total, first }, kids, byTime) {
    const found = [...kids],
      earlier = (a, b) => first[a] - first[b];
    if (byTime) return found.sort(earlier);
    found.sort((a, b) => total[b] - total[a]);
    for (let from = 0, to; from < found.length; from = to) {
      const least = Stacks.EQUAL * total[found[from]];
      for (to = from + 1; to < found.length && total[found[to]] >= least; ) to++;
      const equal = found.slice(from, to).sort(earlier);
      for (let i = from; i < to; i++) found[i] = equal[i - from];
    }
    return found;
  },

  // The frames around one, as text: the outermost, which is the pass, and the nearest.
  around(made, frame, called) {
    const { parent } = made;
    const found = [];
    let at = parent[frame];
    for (; at >= 0 && found.length < 3; at = parent[at]) found.unshift(called(at));
    if (at < 0) return found.join(" › ");
    if (parent[at] >= 0) found.unshift("…");
    made.outermost ??= Stacks.outermost(parent);
    return [called(made.outermost[at]), ...found].join(" › ");
  },

  // The outermost frame around each; frames come behind those that they are in.
  outermost(parent) {
    const found = new Int32Array(parent.length);
    for (let at = 0; at < parent.length; at++) found[at] = parent[at] < 0 ? at : found[parent[at]];
    return found;
  },

  // A further view of the frames of one: frames at one place whose names stand for one are merged.
  merge(columns, view, merged, standsFor) {
    const read = (part) => columns[`${view}.${part}`],
      parent = read("parent"),
      name = read("name"),
      first = read("first");
    const known = new Map(),
      number = [],
      made = { parent: [], name: [], first: [] };
    for (let frame = 0; frame < parent.length; frame++) {
      const above = parent[frame] ? number[parent[frame] - 1] + 1 : 0,
        called = standsFor[name[frame]],
        key = above * Stacks.MOST_NAMES + called;
      let at = known.get(key);
      if (at === undefined) {
        known.set(key, (at = made.name.length));
        made.parent.push(above);
        made.name.push(called);
        made.first.push(first[frame]);
      } else if (first[frame] < made.first[at]) made.first[at] = first[frame];
      number.push(at);
    }
    for (const part of ["step", "ns", "count", "uid"]) columns[`${merged}.${part}`] = read(part);
    for (const [part, values] of Object.entries(made)) columns[`${merged}.${part}`] = values;
    columns[`${merged}.frame`] = Array.from(read("frame"), (frame) => number[frame]);
  },

  // Boxes from a frame on: {frames (a chain), x, width, row}, left-heavy or by time; too narrow ones are left out.
  // A frame joins the chain above it where it has all of its time; `joins(frame, kid)` may ask for more.
  /** @type {(made: any, root: number, options: any) => any[]} */
  boxes(made, root, { byTime, collapsed, least, isApart, joins = () => true }) {
    const found = [],
      { total } = made;
    const whole = root < 0 ? made.sum : total[root];
    const open = [];
    const lay = (frame, x, row) => {
      const width = total[frame] / whole;
      if (!(width >= least)) return;
      const onlyKid = (last) => {
        const kids = [...made.kids(last)].filter((kid) => total[kid] > 0);
        return kids.length === 1 && total[kids[0]] === total[frame] && joins(frame, kids[0]) ? kids[0] : -1;
      };
      const chain = [frame];
      if (collapsed && !isApart(frame)) {
        for (let kid = onlyKid(frame); kid >= 0; kid = onlyKid(kid)) chain.push(kid);
      }
      found.push({ chain, x, width, row });
      open.push([chain[chain.length - 1], x, row + 1]);
    };
    const spread = (frame, x, row) => {
      for (const kid of Stacks.ordered(made, made.kids(frame), byTime)) {
        lay(kid, x, row);
        x += total[kid] / whole;
      }
    };
    if (root < 0) spread(-1, 0, 0);
    else lay(root, 0, 0);
    while (open.length) spread(...open.pop());
    return found;
  },

  // Time of the frames that fit, each GPU event once: what is inside of a frame that fits is not added again. Of one
  // frame that in it, with -1 that of all.
  matched(made, fits, root = -1) {
    const { n, parent, name, total } = made,
      inside = new Uint8Array(n),
      counts = new Uint8Array(n);
    let sum = 0;
    for (let frame = 0; frame < n; frame++) {
      const above = parent[frame];
      counts[frame] = Number(root < 0 || frame === root || (above >= 0 && !!counts[above]));
      const isNew = !(above >= 0 && inside[above]);
      inside[frame] = isNew ? fits[name[frame]] : 1;
      if (inside[frame] && (isNew ? counts[frame] : frame === root)) sum += total[frame];
    }
    return sum;
  },
};
