/** Trains in tabs of one or more browsers, from launch to the end of the run. */
import type { EngineEvent } from '../src/protocol/events.ts';
import type { RunResult } from '../src/protocol/runResult.ts';
import type { DataNote } from '../src/spec/preview.ts';
import { systemClock } from '../src/util/clock.ts';
import { errorMessageOf, PeergradError } from '../src/util/errors.ts';
import type { Io } from './io.ts';
import { closeBrowser, launchBrowsers, type LaunchOptions } from './browser/browser.ts';
import { ModelWriter, type ModelOutputs } from './modelWriter.ts';
import { createLog, errorsOf, type Log } from './output/log.ts';
import { disagreement } from './output/report.ts';
import { openTabs, type Origin, type Tabs } from './browser/tabs.ts';
import { RunWatch, STALL_MS } from './watch.ts';

interface SessionOptions extends LaunchOptions {
  tabs: readonly { name: string; url: string }[];
  timeoutMs: number;
  /** Whether the start also depends on other processes. If so, only `timeoutMs` limits the wait. */
  waitsForOthers: boolean;
  /**
   * Whether ranks may join and leave during the run. If so, the run fails only when all tabs are
   * lost.
   */
  mayLoseTabs: boolean;
  /** File for a screenshot of rank 0's page, or `null`. */
  screenshot: string | null;
  /** Returns a line to log for an event of the first tab, or `null`. */
  remark: (event: EngineEvent) => string | null;
  /** Files to write during the run. */
  outputs: ModelOutputs;
  /** A checkpoint from which the run continues, or weights with which it starts. */
  origin: Origin | null;
}

/**
 * Fraction of the steps after which the screenshot is taken. At that time, charts have data and the
 * ring still moves.
 */
const SCREENSHOT_AT = 0.55;

/**
 * The result of a run, and notes: what was left out, changed or guessed when its data and weights
 * were read.
 */
export interface TrainingResult extends RunResult {
  notes: readonly DataNote[];
}

/**
 * Opens the tabs, follows their run, and always closes the browsers.
 *
 * @returns the result of rank 0 if rank 0 is one of the tabs, otherwise the result of the first tab
 *   that was not lost.
 * @throws (rejects) PeergradError if a tab failed or the ranks do not agree.
 */
export async function trainInTabs(options: SessionOptions, io: Io): Promise<TrainingResult> {
  io.signal.throwIfAborted();
  const browsers = await launchBrowsers(options.tabs.length, options);
  const log = createLog(io, options.tabs[0]!.name, systemClock);
  const watch = new RunWatch({
    tabs: options.tabs.map((tab) => tab.name),
    timeoutMs: options.timeoutMs,
    stallMs: STALL_MS,
    stallsWhileWaiting: !options.waitsForOthers,
    mayLoseTabs: options.mayLoseTabs,
    clock: systemClock,
  });
  const ranks = new Map<string, number>();
  const camera = new Camera(options.screenshot, log);
  let pages: Tabs | null = null;
  // Notes about the data, from one tab: all ranks have the same data.
  let notes: readonly DataNote[] = [];
  let weightNotes: readonly DataNote[] = [];
  const writer = new ModelWriter({
    ...options.outputs,
    clock: systemClock,
    release: async (step) => pages?.release(step),
    ask: async (tab, format) => pages?.askForModel(tab, format),
    read: (tab, from, to) => pages!.readModel(tab, from, to),
    note: (line) => log.note(line),
  });

  const onevent = (tab: string, event: EngineEvent): void => {
    if (event.type === 'preview' && event.preview !== null) ({ notes } = event.preview);
    if (event.type === 'weights') weightNotes = event.notes;
    if (event.type === 'generation') ranks.set(tab, event.rank);
    log.on(tab, event);
    const remark = tab === options.tabs[0]!.name ? options.remark(event) : null;
    if (remark !== null) log.note(remark);
    if (ranks.get(tab) === 0) camera.on(tab, event);
    writer.on(tab, event);
    watch.on(tab, event);
  };

  const interrupt = (): void => watch.abort(io.signal.reason);
  io.signal.addEventListener('abort', interrupt);
  if (io.signal.aborted) interrupt();
  try {
    const { tabs, origin } = options;
    const waitsForCheckpoints = options.outputs.checkpoint !== null;
    const onerror = errorsOf(log);
    const ondeath = (tab: string, message: string): void => {
      writer.tabLost(tab);
      watch.fail(tab, message);
    };
    // The loading of the pages is not awaited, because a tab may fail while others still load. If
    // loading fails, the watch ends with that error.
    openTabs(browsers, {
      tabs,
      onevent,
      ondeath,
      onerror,
      origin,
      waitsForCheckpoints,
      isSeen: (options.headed ?? false) || options.screenshot !== null,
    }).then(
      (opened) => (camera.tabs = pages = opened),
      (error: unknown) => watch.abort(error),
    );
    const results = await watch.done;
    await camera.idle;
    const differ = disagreement(results);
    if (differ !== null) throw new PeergradError(differ);
    const finished = tabs.filter((tab) => watch.hasFinished(tab.name));
    const rank0 = finished.findIndex((tab) => ranks.get(tab.name) === 0);
    const source = Math.max(rank0, 0);
    await writer.saveModel(finished[source]!.name);
    return { ...results[source]!, notes: [...notes, ...weightNotes] };
  } catch (error) {
    if (io.signal.aborted) await writer.saveLast();
    throw error;
  } finally {
    io.signal.removeEventListener('abort', interrupt);
    log.stop();
    await Promise.all(browsers.map(closeBrowser));
  }
}

/** Takes one screenshot of rank 0's page after the middle of the run. */
class Camera {
  /** The tabs, or `null` until they are open. */
  tabs: Tabs | null = null;
  /** Settles when no screenshot is being taken. Never rejects. */
  idle: Promise<void> = Promise.resolve();
  #file: string | null;
  readonly #log: Log;
  #totalSteps = Number.POSITIVE_INFINITY;

  constructor(file: string | null, log: Log) {
    this.#file = file;
    this.#log = log;
  }

  on(tab: string, event: EngineEvent): void {
    if (event.type === 'model') this.#totalSteps = event.totalSteps;
    if (event.type !== 'step' || event.step < this.#totalSteps * SCREENSHOT_AT) return;
    if (this.#file === null || this.tabs === null) return;
    const file = this.#file;
    this.#file = null;
    this.idle = this.tabs.screenshot(tab, file).catch((error: unknown) => {
      this.#log.note(`No screenshot was written to ${file}: ${errorMessageOf(error).split('\n', 1)[0]}`);
    });
  }
}
