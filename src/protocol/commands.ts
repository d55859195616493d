/** The commands that a page sends to its engine. */
import type { LessonOrder } from './lesson.ts';
import type { JobSpec } from '../spec/job.ts';
import type { ModelFormat, ModelVersion } from '../spec/modelFile.ts';

/**
 * A command of the page. `rank`: the requested rank. `isSpectator`: the tab never trains. `resume`:
 * the id of a checkpoint in this browser to resume from. `origin`: a checkpoint file to resume
 * from, or a weights file to start with.
 */
export type EngineCommand =
  | {
      type: 'create';
      server: string;
      name: string;
      rank?: number;
      isSpectator?: boolean;
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
   * Files that the user chose, for jobs with data of kind `shared` or `federated`; `shared` files
   * are distributed to all ranks. The name of a file from a folder includes the folder,
   * `cats/1.png`.
   */
  | { type: 'files'; files: File[] }
  /** Lesson only. A tab that does not lead the lesson may only edit its own numbers. */
  | { type: 'lesson'; order: LessonOrder }
  /** Whether this page is hidden; sent to the other ranks. */
  | { type: 'visibility'; isHidden: boolean }
  /** Requests the recording of the flight recorder. */
  | { type: 'recording' }
  /**
   * Requests a prediction, also after the run. `pixels`: IMAGE_SIDE x IMAGE_SIDE, row by row, 0
   * (paper) to 1 (ink).
   */
  | { type: 'predict'; id: number; pixels: Float32Array }
  /** Requests a {@link ModelInspection}. */
  | { type: 'inspect' }
  /**
   * Requests text from a language model that continues `prompt`, also after the run. `temperature`:
   * 0 takes the likeliest token, 1 samples from the model's distribution.
   */
  | { type: 'generate'; id: number; prompt: string; temperature: number }
  /**
   * Requests the model as a file, also after the run; a checkpoint only during the run. `best`: the
   * model with the best evaluation, which exists if the job has {@link JobSpec.patience} and this
   * tab was in the run at that evaluation.
   */
  | { type: 'export'; id: number; format: ModelFormat; which: ModelVersion }
  /**
   * Makes the run wait for `checkpoint-saved` after every comparison of state hashes, so that a
   * crash loses at most the steps between two comparisons.
   */
  | { type: 'checkpoint-barrier' }
  /** The checkpoint of the state after `step` steps is stored. */
  | { type: 'checkpoint-saved'; step: number }
  | { type: 'leave' };
