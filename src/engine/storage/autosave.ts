/**
 * Saves a run in this browser during training, so that the run can continue after all tabs have
 * left its room.
 */
import type { CheckpointMeta } from '../../formats/checkpoint.ts';
import type { JobSpec } from '../../spec/job.ts';
import { isRunLimitReached } from '../../parallel/recovery/progress.ts';
import type { Clock } from '../../util/clock.ts';
import { errorMessageOf } from '../../util/errors.ts';
import { isSameRun, type Checkpoints } from './checkpoints.ts';
import { runStateToCheckpoint } from './runCheckpoint.ts';
import type { RunState } from './runState.ts';

/**
 * Minimum milliseconds between two checkpoints. The disk is then not busy all the time, and a crash
 * loses at most this much training, plus the time until ranks next compare states.
 */
export const MIN_AUTOSAVE_INTERVAL_MS = 10_000;
/**
 * A checkpoint that is younger than this is recent, no matter which tab has saved it. The limit is
 * less than {@link MIN_AUTOSAVE_INTERVAL_MS}, so that this tab's previous checkpoint does not
 * prevent the next.
 */
const RECENT_MS = 0.9 * MIN_AUTOSAVE_INTERVAL_MS;

export interface AutosaveOptions {
  room: string;
  /**
   * This tab's member id. It makes checkpoint names unique, because other tabs of this browser may
   * save the same run.
   */
  member: string;
  job: JobSpec;
  clock: Clock;
  /** Returns milliseconds since 1970. */
  today: () => number;
  openCheckpoints: () => Promise<Pick<Checkpoints, 'save' | 'removeRun' | 'list'>>;
  /**
   * Runs `task`, unless another tab of this browser is running such a task for this room. So one
   * tab at a time saves the run for all tabs.
   */
  whileAlone: (task: () => Promise<void>) => Promise<void>;
  /** The checkpoint from which this run continues. New checkpoints replace it. */
  origin: CheckpointMeta | null;
  /** Called when the state after `step` steps is saved. */
  onsaved: (step: number) => void;
  /** Called once if saving fails, with the reason. */
  onnote: (message: string) => void;
}

/** A run that can be saved. */
interface Saved {
  snapshot(): Promise<RunState>;
  readonly worldSize: number;
}

export class Autosave {
  readonly #options: AutosaveOptions;
  #savedAt = -Infinity;
  #isSaving = false;
  #hasFailed = false;
  /** Settles after all saves and removals, which run one after the other. */
  #work: Promise<void> = Promise.resolve();

  constructor(options: AutosaveOptions) {
    this.#options = options;
  }

  /** Whether {@link offer} would save a state now. */
  get isDue(): boolean {
    return !this.#isSaving && this.#options.clock.now() - this.#savedAt >= MIN_AUTOSAVE_INTERVAL_MS;
  }

  /**
   * Saves the current state of `run`, unless a state was saved less than {@link
   * MIN_AUTOSAVE_INTERVAL_MS} ago.
   */
  offer(run: Saved): void {
    if (this.isDue) this.#save(run, false);
  }

  /**
   * Saves the current state of `run`, unless a save is in progress, or a tab of this browser has
   * just saved the same or a later step.
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

  /** Removes the checkpoints of a run that has finished after `step` steps. */
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
        // The error is ignored, because users can remove the remaining checkpoints on the front
        // page.
      }
    });
  }

  /** Resolves when all saves and removals are done. */
  get idle(): Promise<void> {
    return this.#work;
  }

  async #keep(state: RunState, worldSize: number, isWanted: boolean): Promise<void> {
    const { openCheckpoints, room, member, job, origin, today } = this.#options;
    const { step } = state.progress;
    if (step === 0 || isRunLimitReached(state.progress, job)) return;
    const id = `${room}-${member}-${step}`;
    const { meta, arrays } = runStateToCheckpoint(state, { id, room, job, savedAt: today(), worldSize });
    const checkpoints = await openCheckpoints();
    const list = await checkpoints.list();
    const recent = list.checkpoints.filter((one) => isSameRun(one, { room, job }) && today() - one.savedAt < RECENT_MS);
    if (recent.some((one) => !isWanted || one.step >= step)) return;
    await checkpoints.save(meta, arrays);
    this.#options.onsaved(step);
    // Checkpoints of the origin's room and job are kept if they have more than `step` steps,
    // because they may belong to another run that continued from the same origin.
    if (origin && !isSameRun(origin, { room, job })) await checkpoints.removeRun(origin, step);
  }

  #note(error: unknown): void {
    if (!this.#hasFailed) {
      this.#options.onnote(`Training continues, but it cannot be saved and resumed later: ${errorMessageOf(error)}`);
    }
    this.#hasFailed = true;
  }

  /** @param task must never reject. */
  #do(task: () => Promise<void>): void {
    this.#work = this.#work.then(task);
  }
}
