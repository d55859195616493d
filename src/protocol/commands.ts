/** The commands that a page sends to its engine. */
import type { LessonOrder } from './lesson.ts';
import type { JobSpec } from '../spec/job.ts';
import type { ModelFileFormat, ExportedModelState } from '../spec/modelFile.ts';
import type { GpuKernelChoice } from '../spec/names.ts';

/**
 * A command of the page. Fields of several commands: `rank` is the requested rank. `isSpectator`
 * means that the tab never trains. `resume` is the id of a checkpoint in this browser from which
 * the run continues. `kernels` are those of this tab's WebGPU device, `own` by default. `origin` is
 * a file: a checkpoint to continue from, or initial weights.
 */
export type EngineCommand =
  | {
      type: 'create';
      server: string;
      name: string;
      rank?: number;
      isSpectator?: boolean;
      kernels?: GpuKernelChoice;
      job: JobSpec;
      startAt: number | null;
      resume?: string;
      origin?: File;
    }
  | {
      type: 'join';
      server: string;
      name: string;
      rank?: number;
      isSpectator?: boolean;
      kernels?: GpuKernelChoice;
      room: string;
      hostKey?: string;
      origin?: File;
    }
  | { type: 'configure'; job: JobSpec }
  | { type: 'start' }
  /** Hosts only: pause the run between two steps, and resume it. */
  | { type: 'pause' }
  | { type: 'resume' }
  /** Hosts only: end the run, remove a member, lock the room. */
  | { type: 'stop' }
  | { type: 'remove'; member: string }
  | { type: 'lock'; isLocked: boolean }
  /**
   * Files that the user chose, for jobs whose data are `files` (the same in every tab), `shared`
   * (distributed to all ranks) or `federated` (never sent). The name of a file in a folder includes
   * the folder: `cats/1.png`.
   */
  | { type: 'files'; files: File[] }
  /** Lesson only. A tab that does not lead the lesson may only edit its own numbers. */
  | { type: 'lesson'; order: LessonOrder }
  /**
   * Whether this page is hidden (the engine sends this to the other ranks), and whether a person
   * may see the page: nobody sees some pages of launchers, although they are not hidden.
   */
  | { type: 'visibility'; isHidden: boolean; isWatched: boolean }
  /** The machine may have slept, or its network may have changed. */
  | { type: 'wake' }
  /** Requests the flight recording. */
  | { type: 'recording' }
  /**
   * Requests a prediction, during or after the run. `pixels` has BUILT_IN_IMAGE_SIDE x
   * BUILT_IN_IMAGE_SIDE values in row-major order, from 0 (paper) to 1 (ink).
   */
  | { type: 'predict'; id: number; pixels: Float32Array }
  /** Requests a `ModelInspection` (`spec/inspection.ts`). */
  | { type: 'inspect' }
  /**
   * Requests text that continues `prompt` from a language model, during or after the run. At
   * `temperature` 0 the likeliest token is chosen; at 1 tokens are sampled from the model's
   * distribution.
   */
  | { type: 'generate'; id: number; prompt: string; temperature: number }
  /**
   * Requests the model as a file. Weights can be requested during or after the run, a checkpoint
   * only during the run. `best` is the model with the lowest held-out loss. It exists if the job
   * has {@link JobSpec.patience} and this tab took part in the evaluation with that loss. If there
   * is no such model, the current one is exported.
   */
  | { type: 'export'; id: number; format: ModelFileFormat; which: ExportedModelState }
  /**
   * Makes the run wait for `checkpoint-saved` after every comparison of state hashes, so that a
   * crash loses at most the steps between two comparisons.
   */
  | { type: 'checkpoint-barrier' }
  /** The checkpoint of the state after `step` steps is stored. */
  | { type: 'checkpoint-saved'; step: number }
  | { type: 'leave' };
