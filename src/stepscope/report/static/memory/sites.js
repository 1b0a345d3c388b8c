// Allocation sites as text: the operator, module, line and stack of a block.

/** @typedef {import("../decode.js").Data} Data */

export class Sites {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    const column = (/** @type {string} */ name) => data.column(`memory.sites.${name}`);
    this.operator = column("operator");
    this.module = column("module");
    this.line = column("line");
    this.stack = column("stack");
    this.hasOperators = this.operator.some((id) => id > 0);
    this.hasModules = this.module.some((id) => id > 0);
    this.hasLines = this.line.some((id) => id > 0);
    this.hasStacks = this.stack.some((row) => row > 0);
  }

  /** @param {number} site */
  operatorText(site) {
    return this.text(this.operator[site], "(no operator)");
  }

  /** @param {number} site */
  moduleText(site) {
    return this.text(this.module[site], "(no module)");
  }

  /** @param {number} site */
  lineText(site) {
    return this.text(this.line[site], "(not in your code)");
  }

  /** The user's line, and the innermost frame if it differs. @param {number} site */
  stackText(site) {
    const [innermost] = this.frames(site, 1);
    if (!innermost) return "(no stack)";
    const line = this.line[site] ? this.data.text(this.line[site]) : "";
    return !line || line === innermost ? innermost : `${line} → ${innermost}`;
  }

  /** The frames of a site, the innermost first. @param {number} site @param {number} [limit] */
  frames(site, limit = Infinity) {
    const up = this.data.column("memory.stacks.up");
    const frame = this.data.column("memory.stacks.frame");
    const frames = [];
    for (let row = this.stack[site] ?? 0; row && frames.length < limit; row -= up[row]) {
      frames.push(this.data.text(frame[row]));
    }
    return frames;
  }

  /** @param {number} id @param {string} none */
  text(id, none) {
    return id ? this.data.text(id) : none;
  }
}
