/**
 * Saves a run in this browser while it trains, so that it can continue after all tabs have left its
 * room.
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
 * Least milliseconds between two checkpoints: at most so much training is lost, and the disk is not
 * kept busy.
 */
export const AUTOSAVE_MS = 10_000;
/**
 * Age up to which a checkpoint was saved by another tab, or a moment ago. Less than {@link
 * AUTOSAVE_MS}, the age of this tab's previous one.
 */
const RECENT_MS = 0.9 * AUTOSAVE_MS;

export interface AutosaveOptions {
  room: string;
  /** This tab's member id: other tabs of its browser may save the same run. */
  member: string;
  job: JobSpec;
  clock: Clock;
  /** Returns milliseconds since 1970. */
  today: () => number;
  openCheckpoints: () => Promise<Pick<Checkpoints, 'save' | 'removeRun' | 'list'>>;
  /**
   * Runs a task unless another tab of this browser runs one for this room: one tab saves for all. A
   * tab that closes does not stop the others.
   */
  whileAlone: (task: () => Promise<void>) => Promise<void>;
  /** The checkpoint that this run continues, and replaces. */
  origin: CheckpointMeta | null;
  /** Called when the state after `step` steps is saved. */
  onsaved: (step: number) => void;
  /** Called once, with the reason why nothing is saved. */
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
  /** Saves and removals, one after the other. */
  #work: Promise<void> = Promise.resolve();

  constructor(options: AutosaveOptions) {
    this.#options = options;
  }

  /** Saves the present state of `run`, unless one was saved a moment ago. */
  offer(run: Saved): void {
    if (this.#options.clock.now() - this.#savedAt >= AUTOSAVE_MS) this.#save(run, false);
  }

  /**
   * Saves the present state of `run`, unless a save is going on, or a tab of this browser has just
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
        // Users can remove the remaining ones on the front page.
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
    if (step === 0 || isRunOver(state.progress, job)) return;
    const id = `${room}-${member}-${step}`;
    const { meta, arrays } = toCheckpoint(state, { id, room, job, savedAt: today(), worldSize });
    const checkpoints = await openCheckpoints();
    const list = await checkpoints.list();
    const recent = list.checkpoints.filter((one) => isSameRun(one, { room, job }) && today() - one.savedAt < RECENT_MS);
    if (recent.some((one) => !isWanted || one.step >= step)) return;
    await checkpoints.save(meta, arrays);
    this.#options.onsaved(step);
    // Later checkpoints of the origin may belong to a run that took another course.
    if (origin && !isSameRun(origin, { room, job })) await checkpoints.removeRun(origin, step);
  }

  #note(error: unknown): void {
    if (!this.#hasFailed) {
      this.#options.onnote(`Training continues, but it cannot be saved and resumed later: ${messageOf(error)}`);
    }
    this.#hasFailed = true;
  }

  /** @param task never rejects. */
  #do(task: () => Promise<void>): void {
    this.#work = this.#work.then(task);
  }
}
