// The part of time that is shown, and how it moves.

const SHORTEST_NS = 20; // the most that zooming in gives
const MARGIN = 0.02; // of the whole, around everything

export class View {
  /** @param {number} until ns: the end of the trace */
  constructor(until) {
    this.until = Math.max(until, SHORTEST_NS);
    this.width = 1; // pixels
    this.from = 0;
    this.to = 1;
    this.all();
  }

  /** ns */
  get span() {
    return this.to - this.from;
  }

  /** ns */
  get perPixel() {
    return this.span / this.width;
  }

  all() {
    this.set(-this.until * MARGIN, this.until * (1 + MARGIN));
  }

  /** Show an interval with some room around it. @param {number} from @param {number} to */
  fit(from, to) {
    const room = Math.max((to - from) * 0.1, SHORTEST_NS / 2);
    this.set(from - room, to + room);
  }

  /** Show exactly this interval, within the recording. @param {number} from @param {number} to */
  set(from, to) {
    const most = this.until * (1 + 2 * MARGIN);
    const span = Math.min(Math.max(to - from, SHORTEST_NS), most);
    // Room at the ends lets the first and the last event reach the middle, unless all is shown.
    const room = Math.min(span / 2, most - span) + this.until * MARGIN;
    const start = Math.min(Math.max((from + to - span) / 2, -room), this.until - span + room);
    this.from = start;
    this.to = start + span;
  }

  /** @param {number} pixels to the right */
  pan(pixels) {
    const by = pixels * this.perPixel;
    const span = this.span;
    this.set(this.from + by, this.from + by + span);
  }

  /** @param {number} factor above 1: closer @param {number} [pixel] that stays where it is */
  zoom(factor, pixel = this.width / 2) {
    const time = this.timeAt(pixel);
    const share = pixel / this.width;
    const span = this.span / factor;
    this.set(time - span * share, time + span * (1 - share));
  }

  /** @param {number} pixel */
  timeAt(pixel) {
    return this.from + pixel * this.perPixel;
  }

  /** @param {number} time ns */
  pixelAt(time) {
    return (time - this.from) / this.perPixel;
  }

  /**
   * The start of the view moved to a whole pixel since time 0: the same slices then share a pixel
   * in every frame of a pan, and nothing flickers.
   * @param {number} [ratio] device pixels in one
   */
  aligned(ratio = 1) {
    const step = this.perPixel / ratio;
    return Math.round(this.from / step) * step;
  }
}

const STEPS = [1, 2, 5];

/**
 * Round moments inside an interval, at most `most` of them, and the distance between two.
 * @param {number} from
 * @param {number} to
 * @param {number} most
 */
export function ticks(from, to, most) {
  const least = (to - from) / Math.max(most, 1);
  let size = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  let step = size;
  for (let i = 0; step < least; i++) {
    if (i && i % STEPS.length === 0) size *= 10;
    step = size * STEPS[i % STEPS.length];
  }
  step = Math.max(step, 1);
  const moments = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) moments.push(i * step);
  return { step, moments };
}
