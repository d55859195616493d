/**
 * Saves a run in this browser while it trains, so that it can go on after all have closed its room.
 */
import type { CheckpointMeta } from '../../protocol/checkpoint.ts';
import type { JobSpec } from '../../spec/job.ts';
import { isRunOver } from '../../parallel/recovery/progress.ts';
import type { Clock } from '../../util/clock.ts';
import { messageOf } from '../../util/errors.ts';
import { isSameRun, type Checkpoints } from './checkpoints.ts';
import { toCheckpoint } from './runCheckpoint.ts';
import type { RunState } from '../training/runState.ts';

/**
 * Least time between two checkpoints, milliseconds: so much training is lost at most, and a disk
 * has other things to do.
 */
export const AUTOSAVE_MS = 10_000;
/**
 * A checkpoint of this age or less is another tab's, or of a moment ago. Less than {@link
 * AUTOSAVE_MS}, which a tab's own has waited.
 */
const RECENT_MS = 0.9 * AUTOSAVE_MS;

export interface AutosaveOptions {
  room: string;
  /** This tab's member id: another tab of its browser may have saved there before. */
  member: string;
  job: JobSpec;
  clock: Clock;
  /** Milliseconds since 1970. */
  today: () => number;
  openCheckpoints: () => Promise<Pick<Checkpoints, 'save' | 'removeRun' | 'list'>>;
  /**
   * Runs a task unless another tab of this browser runs one for this room. One tab saves for all,
   * and none keeps the others from it.
   */
  whileAlone: (task: () => Promise<void>) => Promise<void>;
  /** What this run goes on from, which it replaces. */
  origin: CheckpointMeta | null;
  /** The state after so many steps is saved. */
  onsaved: (step: number) => void;
  /** Why nothing is saved, once. */
  onnote: (message: string) => void;
}

/** What is saved. */
interface Saved {
  snapshot(): Promise<RunState>;
  readonly worldSize: number;
}

export class Autosave {
  readonly #options: AutosaveOptions;
  #savedAt = -Infinity;
  #isSaving = false;
  #hasFailed = false;
  /** What was begun, in order. */
  #work: Promise<void> = Promise.resolve();

  constructor(options: AutosaveOptions) {
    this.#options = options;
  }

  /** Saves `run` as it is now, unless that was done a moment ago. */
  offer(run: Saved): void {
    if (this.#options.clock.now() - this.#savedAt >= AUTOSAVE_MS) this.#save(run, false);
  }

  /**
   * Saves `run` as it is now, unless the last time still takes, or a tab of this browser has just
   * saved as many steps.
   */
  save(run: Saved): void {
    this.#save(run, true);
  }

  #save(run: Saved, isWanted: boolean): void {
    if (this.#isSaving) return;
    this.#isSaving = true;
    this.#savedAt = this.#options.clock.now();
    const { worldSize } = run;
    const state = run.snapshot();
    this.#do(async () => {
      try {
        const snapshot = await state;
        await this.#options.whileAlone(() => this.#keep(snapshot, worldSize, isWanted));
      } catch (error) {
        this.#note(error);
      } finally {
        this.#isSaving = false;
      }
    });
  }

  /** The run has finished after `step` steps: nobody will go on with it. */
  discard(step: number): void {
    const { openCheckpoints, whileAlone, room, job, origin } = this.#options;
    this.#do(async () => {
      try {
        await whileAlone(async () => {
          const checkpoints = await openCheckpoints();
          await checkpoints.removeRun({ room, job });
          if (origin) await checkpoints.removeRun(origin, step);
        });
      } catch {
        // What is left can be removed on the front page.
      }
    });
  }

  /** Resolves once all that was begun is done. */
  get idle(): Promise<void> {
    return this.#work;
  }

  async #keep(state: RunState, worldSize: number, isWanted: boolean): Promise<void> {
    const { openCheckpoints, room, member, job, origin, today } = this.#options;
    const { step } = state.progress;
    if (step === 0 || isRunOver(state.progress, job)) return;
    const id = `${room}-${member}-${step}`;
    const { meta, arrays } = toCheckpoint(state, { id, room, job, savedAt: today(), worldSize });
    const checkpoints = await openCheckpoints();
    const list = await checkpoints.list();
    const recent = list.checkpoints.filter((one) => isSameRun(one, { room, job }) && today() - one.savedAt < RECENT_MS);
    if (recent.some((one) => !isWanted || one.step >= step)) return;
    await checkpoints.save(meta, arrays);
    this.#options.onsaved(step);
    // Later ones may be of a run that went another way from there.
    if (origin && !isSameRun(origin, { room, job })) await checkpoints.removeRun(origin, step);
  }

  #note(error: unknown): void {
    if (!this.#hasFailed) {
      this.#options.onnote(`Training goes on, but cannot go on later from here: ${messageOf(error)}`);
    }
    this.#hasFailed = true;
  }

  /** @param task never rejects. */
  #do(task: () => Promise<void>): void {
    this.#work = this.#work.then(task);
  }
}
