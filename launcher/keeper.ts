/**
 * Writes what a run's tabs give away: checkpoints as it goes, and its model at the end. A file is
 * there whole, or as it was before.
 */
import { open, rename, rm } from 'node:fs/promises';
import type { EngineEvent } from '../src/protocol/events.ts';
import type { ModelFormat, WeightsFormat } from '../src/spec/modelFile.ts';
import { deferred, type Deferred } from '../src/util/deferred.ts';
import type { Clock } from '../src/util/clock.ts';
import { messageOf, PeergradError, TimeoutError } from '../src/util/errors.ts';

/**
 * Milliseconds for a tab to give its model: a large one is read from a GPU that others use, too.
 */
const ANSWER_MS = 60_000;
/** Milliseconds for the last checkpoint after Ctrl-C, when the process has five seconds to end. */
const HURRIED_MS = 3_000;

/** What is to be kept of a run. */
export interface Kept {
  /** Where a checkpoint goes, each in the place of the one before; `null`: nowhere. */
  checkpoint: string | null;
  /** Where the model goes in the end. */
  out: { path: string; format: WeightsFormat } | null;
  /** A checkpoint is written. */
  onwritten: () => void;
}

interface KeeperOptions extends Kept {
  clock: Clock;
  /** What the run was after `step` is kept, or cannot be: it may go on. */
  release: (step: number) => Promise<void>;
  /** Has a tab tell its model. */
  ask: (tab: string, format: ModelFormat) => Promise<void>;
  note: (line: string) => void;
}

type Exported = Extract<EngineEvent, { type: 'exported' }>;

export class Keeper {
  readonly #options: KeeperOptions;
  /** The question that is not answered yet: one at a time. */
  #asked: { tab: string; answer: Deferred<Exported> } | null = null;
  /** Settles when what was begun is written. Never rejects. */
  #work: Promise<void> = Promise.resolve();
  /** Who has a state that all ranks agreed on. */
  #source: string | null = null;
  #comparedStep = -1;
  /** A checkpoint is to be asked for, and is not yet: it will be of the latest state. */
  #isQueued = false;
  #isOver = false;
  #hasFailed = false;

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  on(tab: string, event: EngineEvent): void {
    if (event.type === 'exported' && this.#asked?.tab === tab) this.#asked.answer.resolve(event);
    if (event.type === 'finished') this.#isOver = true;
    // Once a comparison, whichever tab tells of it first.
    if (event.type !== 'hashes' || !event.agree || event.step <= this.#comparedStep) return;
    this.#comparedStep = event.step;
    this.#source = tab;
    this.#saveCheckpoint();
  }

  /** The tab is gone: what it was asked for will not come. */
  lose(tab: string): void {
    if (this.#asked?.tab === tab)
      this.#asked.answer.reject(new PeergradError(`${tab} was lost before it gave its model.`));
  }

  /** Resolves once nothing is being written. Never rejects. */
  get idle(): Promise<void> {
    return this.#work;
  }

  /** The last checkpoint of a run that is interrupted. Never rejects. */
  async saveLast(): Promise<void> {
    this.#saveCheckpoint();
    const late = deferred();
    const cancel = this.#options.clock.after(HURRIED_MS, () => late.resolve());
    await Promise.race([this.#work, late.promise]);
    cancel();
  }

  /**
   * The model of a run that has ended, from a tab that saw it. @throws (rejects) PeergradError
   * where it cannot be saved.
   */
  async saveModel(tab: string): Promise<void> {
    await this.#work;
    const { out, note } = this.#options;
    if (out === null) return;
    const { file, problem } = await this.#ask(tab, out.format);
    if (file === null) throw new PeergradError(`The model was not saved to ${out.path}: ${problem}`);
    await writeWhole(out.path, file.bytes);
    note(`The model after step ${file.step} is in ${out.path}.`);
  }

  #saveCheckpoint(): void {
    const { checkpoint, note, onwritten, release } = this.#options;
    const tab = this.#source;
    if (checkpoint === null || tab === null || this.#isQueued) return;
    this.#isQueued = true;
    this.#work = this.#work.then(async () => {
      this.#isQueued = false;
      const step = this.#comparedStep;
      // Nobody will go on with it.
      if (this.#isOver) return;
      try {
        const { file, problem } = await this.#ask(tab, 'checkpoint');
        if (file === null) throw new PeergradError(problem!);
        await writeWhole(checkpoint, file.bytes);
        onwritten();
      } catch (error) {
        if (this.#isOver || this.#hasFailed) return;
        this.#hasFailed = true;
        note(`No checkpoint was written to ${checkpoint}: ${messageOf(error).split('\n', 1)[0]}`);
      } finally {
        // A tab that is gone need not be.
        release(step).catch(() => {});
      }
    });
  }

  async #ask(tab: string, format: ModelFormat): Promise<Exported> {
    const { ask, clock } = this.#options;
    const answer = deferred<Exported>();
    this.#asked = { tab, answer };
    const cancel = clock.after(ANSWER_MS, () =>
      answer.reject(new TimeoutError(`${tab} did not give its model within ${ANSWER_MS / 1000} s.`)),
    );
    ask(tab, format).catch((error: unknown) => answer.reject(error));
    try {
      return await answer.promise;
    } finally {
      cancel();
      this.#asked = null;
    }
  }
}

/** Under its name once all of it is on the disk. */
async function writeWhole(path: string, bytes: Uint8Array): Promise<void> {
  const partial = `${path}.${process.pid}.part`;
  try {
    const file = await open(partial, 'w');
    try {
      await file.writeFile(bytes);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw new PeergradError(`${path} could not be written: ${messageOf(error)}.`);
  }
}
