/**
 * Threads that compute parts of the calls of this project's module, in shared memory. The thread
 * that calls a function computes parts too, and each part is taken by a thread that is free. So a
 * thread that has not started yet, or that the machine has paused, delays only a part that it has
 * taken.
 */
import type { Clock } from '../util/clock.ts';
import { DeviceError } from '../util/errors.ts';
import { CALL_DIVISIONS, type DividedFunctionName } from './divisions.ts';
import {
  instantiateThreadModules,
  type AllModuleFunctions,
  type ModuleInstance,
  type ThreadModules,
} from './instance.ts';

/** More threads gain little with the matrices that tabs multiply. */
export const MAX_WASM_THREADS = 8;
/** With more parts than threads, a slower thread takes fewer of them. */
const PARTS_PER_THREAD = 2;
/**
 * Smallest number of multiplications for which a call is divided. Smaller calls end before another
 * thread wakes up.
 */
const LEAST_WORK = 2 ** 18;
/**
 * After `JUDGED_CALLS` divided calls it is judged whether threads save time. If they do not,
 * because other programs use the cores, one thread computes the next `UNDIVIDED_CALLS` calls.
 */
const JUDGED_CALLS = 256;
const UNDIVIDED_CALLS = 1024;
/** How many times a thread looks for a part before it sleeps. */
const LOOKS = 8000;
/**
 * Limits of the wait for the parts of other threads, which take milliseconds. If the machine
 * sleeps, that counts as one of these waits.
 */
const WAIT_MS = 1000;
const MOST_WAITS = 60;

/** Positions of the integers in a control block. */
const POSITION = { call: 0, untaken: 1, unfinished: 2, name: 3, parts: 4, units: 5, threads: 6 } as const;
const INTEGERS = 8;
const MOST_ARGUMENTS = 20;
const NAMES = Object.keys(CALL_DIVISIONS) as readonly DividedFunctionName[];

/** Memory in which threads find the call that is divided. */
class ControlBlock {
  readonly integers: Int32Array;
  readonly args: Float64Array;

  constructor(buffer: SharedArrayBuffer) {
    this.integers = new Int32Array(buffer, 0, INTEGERS);
    this.args = new Float64Array(buffer, INTEGERS * Int32Array.BYTES_PER_ELEMENT);
  }
}

/** What a thread receives when it starts. */
export interface ThreadStart {
  /** With shared memory. */
  modules: ThreadModules;
  memory: WebAssembly.Memory;
  control: SharedArrayBuffer;
  /** Index of the thread. The one that calls the functions has 0. */
  thread: number;
}

/** Computes parts until the thread is terminated. */
export function serveCallParts({ modules, memory, control, thread }: ThreadStart): never {
  const instance = instantiateThreadModules(modules, memory);
  const block = new ControlBlock(control);
  const { integers } = block;
  for (;;) {
    const threads = Atomics.load(integers, POSITION.threads);
    if (thread >= threads) {
      Atomics.wait(integers, POSITION.threads, threads);
      continue;
    }
    takeParts(block, instance, thread);
    const call = Atomics.load(integers, POSITION.call);
    let looks = 0;
    while (looks < LOOKS && Atomics.load(integers, POSITION.untaken) === 0) looks++;
    // Returns at once if a call has begun since `call` was read.
    if (looks === LOOKS) Atomics.wait(integers, POSITION.call, call);
  }
}

/** Computes parts until all are taken. Returns how many this thread has taken. */
function takeParts(
  { integers, args }: ControlBlock,
  { functions, sizes }: ModuleInstance<AllModuleFunctions>,
  thread: number,
): number {
  for (let taken = 0; ;) {
    const untaken = Atomics.load(integers, POSITION.untaken);
    if (untaken === 0) return taken;
    if (Atomics.compareExchange(integers, POSITION.untaken, untaken, untaken - 1) !== untaken) continue;
    // The next call begins when this part is finished, so all numbers belong to the same call.
    const name = NAMES[integers[POSITION.name]!]!;
    const [parts, units] = [integers[POSITION.parts]!, integers[POSITION.units]!];
    const index = parts - untaken;
    const from = Math.floor((units * index) / parts);
    const to = Math.floor((units * (index + 1)) / parts);
    functions[name](...CALL_DIVISIONS[name].part(Array.from(args), { from, to, thread, sizes }));
    if (Atomics.sub(integers, POSITION.unfinished, 1) === 1) Atomics.notify(integers, POSITION.unfinished);
    taken++;
  }
}

/** The calling thread's side. It must not be a page's main thread, which may not wait. */
export class WasmThreads {
  readonly instance: ModuleInstance<AllModuleFunctions>;
  readonly #start: Omit<ThreadStart, 'thread'>;
  readonly #block: ControlBlock;
  readonly #create: (start: ThreadStart) => void;
  readonly #clock: Pick<Clock, 'now'>;
  #created = 1;
  #started: DividedFunctionName | null = null;
  /** Divided calls since the last judgement, and the milliseconds that they have saved. */
  #judged = 0;
  #savedMs = 0;
  /** Calls that one thread computes from now on. */
  #undivided = 0;

  /** @param create starts a thread that calls {@link serveCallParts}. */
  constructor(
    modules: ThreadModules,
    memory: WebAssembly.Memory,
    { clock, create }: { clock: Pick<Clock, 'now'>; create: (start: ThreadStart) => void },
  ) {
    this.instance = instantiateThreadModules(modules, memory);
    const bytes = INTEGERS * Int32Array.BYTES_PER_ELEMENT + MOST_ARGUMENTS * Float64Array.BYTES_PER_ELEMENT;
    const control = new SharedArrayBuffer(bytes);
    this.#start = { modules, memory, control };
    this.#block = new ControlBlock(control);
    this.#create = create;
    this.#clock = clock;
    this.count = 1;
  }

  /** Number of threads that compute, with the calling one. */
  get count(): number {
    return Atomics.load(this.#block.integers, POSITION.threads);
  }

  /**
   * Sets the number of threads, which is at least 1 and at most {@link MAX_WASM_THREADS}. Threads
   * that have started sleep when they are not needed.
   */
  set count(count: number) {
    const threads = Math.max(1, Math.min(count, MAX_WASM_THREADS));
    const { integers } = this.#block;
    Atomics.store(integers, POSITION.threads, threads);
    Atomics.notify(integers, POSITION.threads);
    for (; this.#created < threads; this.#created++) this.#create({ ...this.#start, thread: this.#created });
  }

  /**
   * Calls a function, in parts if that is faster.
   *
   * @throws DeviceError if a thread does not finish its part. Later calls throw it, too, because
   *   the thread may still write to memory that has another use by then.
   */
  run(name: DividedFunctionName, args: readonly number[]): void {
    this.start(name, args);
    this.finish();
  }

  /**
   * Begins a call. Other threads may compute parts until {@link finish} is called. Before that, no
   * other call may begin.
   */
  start(name: DividedFunctionName, args: readonly number[]): void {
    const { integers } = this.#block;
    if (Atomics.load(integers, POSITION.unfinished) > 0) {
      throw new DeviceError('A part of an earlier call is not finished, so memory may still change. Reload the page.');
    }
    const division = CALL_DIVISIONS[name];
    const units = division.units(args);
    const parts = Math.min(units, PARTS_PER_THREAD * this.count);
    const isLarge = this.count > 1 && parts > 1 && division.work(args) >= LEAST_WORK;
    if (!isLarge || this.#undivided > 0) {
      if (isLarge) this.#undivided--;
      this.instance.functions[name](...args);
      return;
    }
    const startedAt = this.#clock.now();
    this.#block.args.set(args);
    integers[POSITION.name] = NAMES.indexOf(name);
    integers[POSITION.parts] = parts;
    integers[POSITION.units] = units;
    Atomics.store(integers, POSITION.unfinished, parts);
    Atomics.store(integers, POSITION.untaken, parts);
    Atomics.add(integers, POSITION.call, 1);
    Atomics.notify(integers, POSITION.call);
    this.#started = name;
    this.#savedMs -= this.#clock.now() - startedAt;
  }

  /**
   * Ends the call that has begun: computes parts that nobody has taken, and waits for the others.
   *
   * @throws DeviceError if a thread does not finish its part.
   */
  finish(): void {
    if (this.#started === null) return;
    const start = this.#clock.now();
    const taken = takeParts(this.#block, this.instance, 0);
    const computed = this.#clock.now();
    this.#waitForOthers(this.#started);
    this.#started = null;
    const others = this.#block.integers[POSITION.parts]! - taken;
    const waitedMs = this.#clock.now() - computed;
    if (taken > 0) this.#judge(((computed - start) * others) / taken - waitedMs);
  }

  /** @param savedMs time that this thread needs for the parts of others, without the wait. */
  #judge(savedMs: number): void {
    this.#savedMs += savedMs;
    if (++this.#judged < JUDGED_CALLS) return;
    if (this.#savedMs < 0) this.#undivided = UNDIVIDED_CALLS;
    this.#savedMs = 0;
    this.#judged = 0;
  }

  #waitForOthers(name: DividedFunctionName): void {
    const { integers } = this.#block;
    for (let looks = 0; looks < LOOKS; looks++) if (Atomics.load(integers, POSITION.unfinished) === 0) return;
    for (let waits = 0; waits < MOST_WAITS;) {
      const unfinished = Atomics.load(integers, POSITION.unfinished);
      if (unfinished === 0) return;
      if (Atomics.wait(integers, POSITION.unfinished, unfinished, WAIT_MS) === 'timed-out') waits++;
    }
    const seconds = (MOST_WAITS * WAIT_MS) / 1000;
    throw new DeviceError(`A thread has not finished its part of ${name} within ${seconds} s. Reload the page.`);
  }
}
