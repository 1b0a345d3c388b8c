// A flame graph without the DOM: sums, places, the way up and down, and what a search finds.

/** @typedef {{up: ArrayLike<number>, text: ArrayLike<number>, own: ArrayLike<number>, waits?: ArrayLike<number>}} Nodes waits: how much of its own each waited */

export class Layout {
  /**
   * Row 0 is the root; callers come before their callees.
   * @param {Nodes} nodes
   */
  constructor({ up, text, own, waits }) {
    const count = up.length;
    this.count = count;
    this.text = text;
    this.own = own;
    this.parent = new Int32Array(count);
    this.depth = new Uint16Array(count);
    this.total = new Float64Array(count);
    /** How much of a node's total was waiting. */
    this.waited = new Float64Array(count);
    /** Where a node's part begins, as an amount from the left. */
    this.start = new Float64Array(count);
    for (let node = 0; node < count; node++) {
      this.parent[node] = node ? node - up[node] : -1;
      this.depth[node] = node ? this.depth[this.parent[node]] + 1 : 0;
      this.total[node] = own[node];
      this.waited[node] = waits?.[node] ?? 0;
    }
    for (let node = count - 1; node > 0; node--) {
      this.total[this.parent[node]] += this.total[node];
      this.waited[this.parent[node]] += this.waited[node];
    }
    this.order = this.siblings();
    /** The largest callee of each node, -1 without. */
    this.first = new Int32Array(count).fill(-1);
    /** Where each node stands in `order`. */
    this.rank = new Uint32Array(count);
    this.deepest = 0;
    for (let node = 0; node < count; node++) if (this.total[node] > 0) this.deepest = Math.max(this.deepest, this.depth[node]);
    this.place();
  }

  /** All nodes, callees of one caller side by side, the largest first; callers before callees. */
  siblings() {
    const order = Array.from({ length: this.count }, (_, node) => node);
    order.sort((a, b) => this.parent[a] - this.parent[b] || this.total[b] - this.total[a] || a - b);
    return Uint32Array.from(order);
  }

  place() {
    const used = new Float64Array(this.count);
    for (let i = 0; i < this.count; i++) {
      const node = this.order[i];
      this.rank[node] = i;
      const caller = this.parent[node];
      if (caller < 0) continue;
      if (this.first[caller] < 0) this.first[caller] = node;
      this.start[node] = this.start[caller] + used[caller];
      used[caller] += this.total[node];
    }
  }

  /** Whether a node mostly waits. @param {number} node */
  waits(node) {
    return this.waited[node] > this.total[node] / 2;
  }

  /** From a node up to the root. @param {number} node */
  path(node) {
    const path = [];
    for (let at = node; at >= 0; at = this.parent[at]) path.push(at);
    return path;
  }

  /** The node beside another with the same caller, -1 without. @param {number} node @param {number} step 1 or -1 */
  beside(node, step) {
    const next = this.order[this.rank[node] + step];
    return next !== undefined && node && this.parent[next] === this.parent[node] && this.total[next] > 0 ? next : -1;
  }

  /** The largest callee, -1 without. @param {number} node */
  below(node) {
    const first = this.first[node];
    return first >= 0 && this.total[first] > 0 ? first : -1;
  }

  /**
   * The node at a depth and an amount from the left, -1 for none.
   * @param {number} depth
   * @param {number} amount
   */
  at(depth, amount) {
    let node = 0;
    while (this.depth[node] < depth) {
      let inner = this.first[node];
      while (inner >= 0 && amount >= this.start[inner] + this.total[inner]) inner = this.beside(inner, 1);
      if (inner < 0 || amount < this.start[inner] || !this.total[inner]) return -1;
      node = inner;
    }
    return node;
  }

  /**
   * The nodes with a wanted text, and their total; nested ones count once.
   * @param {(text: number) => boolean} wanted by the number of the text
   */
  search(wanted) {
    const found = new Uint8Array(this.count);
    const inside = new Uint8Array(this.count);
    let [hits, amount] = [0, 0];
    for (let node = 1; node < this.count; node++) {
      inside[node] = inside[this.parent[node]] | found[this.parent[node]];
      if (!this.total[node] || !wanted(this.text[node])) continue;
      found[node] = 1;
      hits++;
      if (!inside[node]) amount += this.total[node];
    }
    return { found, hits, amount };
  }
}
