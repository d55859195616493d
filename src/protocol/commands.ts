/** The commands that a page sends to its engine. */
import type { LessonOrder } from './lesson.ts';
import type { JobSpec } from '../spec/job.ts';
import type { ModelFormat, ModelVersion } from '../spec/modelFile.ts';

/**
 * What a page may ask of its engine. `rank`: the one that this tab wants. `watches`: it never
 * trains. `resume`: the id of the checkpoint in this browser to go on from. `origin`: a file to go
 * on from, or to begin with: a checkpoint's, or weights.
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
  /** Hosts only: holds the run between two steps, and lets it go on. */
  | { type: 'pause' }
  | { type: 'resume' }
  /** Hosts only: ends the run; sends a member out; lets nobody in any more. */
  | { type: 'stop' }
  | { type: 'remove'; member: string }
  | { type: 'lock'; isLocked: boolean }
  /**
   * Files the user picked, for jobs with data of kind `files`; of kind `spread` they are to go
   * round. A file from a folder is named with it, `cats/1.png`.
   */
  | { type: 'files'; files: File[] }
  /** In a lesson. Of a tab that does not lead it, only edits of its own numbers count. */
  | { type: 'lesson'; order: LessonOrder }
  /** Whether this page is hidden, for the others to know. */
  | { type: 'visibility'; isHidden: boolean }
  /** Asks for what the flight recorder holds. */
  | { type: 'recording' }
  /**
   * Asks the model, also after its run, what an image shows: IMAGE_SIDE x IMAGE_SIDE pixels, row by
   * row, 0 .. 1 (ink).
   */
  | { type: 'predict'; id: number; pixels: Float32Array }
  /** Asks for what the model has learned. */
  | { type: 'examine' }
  /**
   * Asks a language model to write on, also after its run; `temperature` is 0 for the likeliest, 1
   * as the model has it.
   */
  | { type: 'write'; id: number; prompt: string; temperature: number }
  /**
   * Asks for the model as a file, also after its run; for a checkpoint while it is on. `best`: as
   * it was when it tested best, where this tab has kept that; a run that has no {@link
   * JobSpec.patience}, or that this tab came to later, has not.
   */
  | { type: 'export'; id: number; format: ModelFormat; which: ModelVersion }
  /**
   * From now on the run waits after every comparison of ranks for `release`, so that no more than
   * what lies between two can be lost.
   */
  | { type: 'hold' }
  /** What the run was after `step` is kept. */
  | { type: 'release'; step: number }
  | { type: 'leave' };
