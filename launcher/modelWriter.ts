/**
 * Writes the files of a run: checkpoints during the run, and the model at the end. A file is always
 * complete: a new version is written to another file first, which then replaces it.
 */
import { open, rename, rm } from 'node:fs/promises';
import type { EngineEvent, EventOf } from '../src/protocol/events.ts';
import type { ModelFileFormat, WeightsFormat } from '../src/spec/modelFile.ts';
import { createDeferred, type Deferred } from '../src/util/deferred.ts';
import type { Clock } from '../src/util/clock.ts';
import { errorMessageOf, PeergradError, errorReasonOf, TimeoutError } from '../src/util/errors.ts';

/**
 * Milliseconds for a tab to export its model. A large model takes long to read from a GPU that
 * other tabs also use.
 */
const ANSWER_MS = 60_000;
/** Milliseconds for the final checkpoint after Ctrl-C. The process must end within five seconds. */
const HURRIED_MS = 3_000;
/** Bytes of a file that a tab sends in one message. */
const PART_BYTES = 8 * 1024 * 1024;

/** Files to write during a run. */
export interface ModelOutputs {
  /** Path of the checkpoint. Each checkpoint replaces the previous one. `null`: no checkpoints. */
  checkpoint: string | null;
  /** Path and format of the final model. */
  out: { path: string; format: WeightsFormat } | null;
  /** Called after each checkpoint. */
  onwritten: () => void;
}

interface ModelWriterOptions extends ModelOutputs {
  clock: Clock;
  /**
   * Continues the runs that wait for the checkpoint after `step`, whether it was written or not.
   */
  release: (step: number) => Promise<void>;
  /** Requests a tab's model. */
  ask: (tab: string, format: ModelFileFormat) => Promise<void>;
  /** Reads the bytes from..to-1 of the file that a tab exported; fewer at the end of the file. */
  read: (tab: string, from: number, to: number) => Promise<Uint8Array>;
  note: (line: string) => void;
}

type Exported = EventOf<'exported'>;

export class ModelWriter {
  readonly #options: ModelWriterOptions;
  /** The pending request to a tab, or `null`. There is at most one at a time. */
  #asked: { tab: string; onexported: (event: Exported) => void; reject: (error: Error) => void } | null = null;
  /** Settles when pending files are written. Never rejects. */
  #work: Promise<void> = Promise.resolve();
  /**
   * The tab that was the first to report the latest state on which all ranks agreed. Checkpoints
   * are requested from this tab.
   */
  #source: string | null = null;
  #comparedStep = -1;
  /**
   * Whether another checkpoint will be written after the pending one. It will contain the state
   * that is the latest at that time.
   */
  #isQueued = false;
  #isOver = false;
  #hasFailed = false;

  constructor(options: ModelWriterOptions) {
    this.#options = options;
  }

  on(tab: string, event: EngineEvent): void {
    if (event.type === 'exported' && this.#asked?.tab === tab) this.#asked.onexported(event);
    if (event.type === 'finished') this.#isOver = true;
    // Every tab reports that the states of all ranks were compared. Only the first report of each
    // step is used.
    if (event.type !== 'hashes' || !event.agree || event.step <= this.#comparedStep) return;
    this.#comparedStep = event.step;
    this.#source = tab;
    this.#saveCheckpoint();
  }

  /** Rejects a pending request to a tab that is gone. */
  tabLost(tab: string): void {
    if (this.#asked?.tab === tab)
      this.#asked.reject(new PeergradError(`${tab} was lost before it exported its model.`));
  }

  /** Resolves when no file is being written. Never rejects. */
  get idle(): Promise<void> {
    return this.#work;
  }

  /** Writes the final checkpoint of an interrupted run. Never rejects. */
  async saveLast(): Promise<void> {
    this.#saveCheckpoint();
    const late = createDeferred();
    const cancel = this.#options.clock.after(HURRIED_MS, () => late.resolve());
    await Promise.race([this.#work, late.promise]);
    cancel();
  }

  /**
   * Requests the final model from `tab`, which must have finished the run, and writes the file.
   *
   * @throws (rejects) PeergradError if it cannot be saved.
   */
  async saveModel(tab: string): Promise<void> {
    await this.#work;
    const { out, note } = this.#options;
    if (out === null) return;
    const { file, problem } = await this.#ask(tab, out.format);
    if (file === null) throw new PeergradError(`The model was not saved to ${out.path}: ${problem}`);
    await writeWhole(out.path, this.#partsOf(tab));
    note(`The model after step ${file.step} was saved to ${out.path}.`);
  }

  #saveCheckpoint(): void {
    const { checkpoint, note, onwritten, release } = this.#options;
    const tab = this.#source;
    if (checkpoint === null || tab === null || this.#isQueued) return;
    this.#isQueued = true;
    this.#work = this.#work.then(async () => {
      this.#isQueued = false;
      const step = this.#comparedStep;
      // The run has finished, so no checkpoint is needed.
      if (this.#isOver) return;
      try {
        const { file, problem } = await this.#ask(tab, 'checkpoint');
        if (file === null) throw new PeergradError(problem!);
        await writeWhole(checkpoint, this.#partsOf(tab));
        onwritten();
      } catch (error) {
        if (this.#isOver || this.#hasFailed) return;
        this.#hasFailed = true;
        note(`No checkpoint was written to ${checkpoint}: ${errorMessageOf(error).split('\n', 1)[0]}`);
      } finally {
        // Errors of `release` are ignored, because a tab that is gone does not need to continue.
        release(step).catch(() => {});
      }
    });
  }

  async #ask(tab: string, format: ModelFileFormat): Promise<Exported> {
    const answer = createDeferred<Exported>();
    this.#options.ask(tab, format).catch((error: unknown) => answer.reject(error));
    return this.#answerOf(tab, answer, answer.resolve);
  }

  /** Yields the bytes of the file that a tab exported. */
  async *#partsOf(tab: string): AsyncGenerator<Uint8Array, void> {
    for (let at = 0; ; at += PART_BYTES) {
      const answer = createDeferred<Uint8Array>();
      this.#options.read(tab, at, at + PART_BYTES).then(answer.resolve, answer.reject);
      const part = await this.#answerOf(tab, answer);
      if (part.length > 0) yield part;
      if (part.length < PART_BYTES) return;
    }
  }

  /** Waits for an answer of a tab until its deadline, or until the tab is lost. */
  async #answerOf<T>(tab: string, answer: Deferred<T>, onexported: (event: Exported) => void = () => {}): Promise<T> {
    const cancel = this.#options.clock.after(ANSWER_MS, () =>
      answer.reject(new TimeoutError(`${tab} did not export its model within ${ANSWER_MS / 1000} s.`)),
    );
    this.#asked = { tab, onexported, reject: answer.reject };
    try {
      return await answer.promise;
    } finally {
      cancel();
      this.#asked = null;
    }
  }
}

/** Writes to a temporary file, and renames that file when all bytes are on the disk. */
async function writeWhole(path: string, parts: AsyncIterable<Uint8Array>): Promise<void> {
  const partial = `${path}.${process.pid}.part`;
  try {
    const file = await open(partial, 'w');
    try {
      for await (const part of parts) await file.writeFile(part);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw new PeergradError(`${path} could not be written: ${errorReasonOf(error)}.`);
  }
}
