/**
 * A queue of events, earliest first. Events of the same time keep their insertion order, so that a
 * simulation is deterministic.
 */
export class SimulationEventQueue {
  /**
   * A binary heap in three arrays. With an object for each event, a queue of millions of events
   * would be several times slower.
   */
  #times = new Float64Array(1024);
  #orders = new Uint32Array(1024);
  #events = new Int32Array(1024);
  #size = 0;
  #put = 0;

  get size(): number {
    return this.#size;
  }

  /** The time of the first event. */
  get time(): number {
    return this.#times[0]!;
  }

  /** @param event any int32. */
  push(time: number, event: number): void {
    if (this.#size === this.#times.length) this.#grow();
    let at = this.#size++;
    const order = this.#put++;
    for (; at > 0;) {
      const parent = (at - 1) >> 1;
      // An event that is inserted later comes after other events of the same time.
      if (this.#times[parent]! <= time) break;
      this.#move(parent, at);
      at = parent;
    }
    this.#place(at, time, order, event);
  }

  /** Removes the first event. The queue must not be empty. */
  pop(): number {
    const first = this.#events[0]!;
    const last = --this.#size;
    const time = this.#times[last]!;
    const order = this.#orders[last]!;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= last) break;
      if (child + 1 < last && this.#isBefore(child + 1, this.#times[child]!, this.#orders[child]!)) child += 1;
      if (!this.#isBefore(child, time, order)) break;
      this.#move(child, at);
      at = child;
    }
    this.#place(at, time, order, this.#events[last]!);
    return first;
  }

  #isBefore(at: number, time: number, order: number): boolean {
    const own = this.#times[at]!;
    return own < time || (own === time && this.#orders[at]! < order);
  }

  #move(from: number, to: number): void {
    this.#place(to, this.#times[from]!, this.#orders[from]!, this.#events[from]!);
  }

  #place(at: number, time: number, order: number, event: number): void {
    this.#times[at] = time;
    this.#orders[at] = order;
    this.#events[at] = event;
  }

  #grow(): void {
    const [times, orders, events] = [this.#times, this.#orders, this.#events];
    this.#times = new Float64Array(2 * times.length);
    this.#orders = new Uint32Array(2 * times.length);
    this.#events = new Int32Array(2 * times.length);
    this.#times.set(times);
    this.#orders.set(orders);
    this.#events.set(events);
  }
}
