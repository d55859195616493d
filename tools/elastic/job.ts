/** The job of `tools elastic`. */
export const SAMPLES = 300;
export const BATCH_SIZE = 2;
export const EPOCHS = 2;
export const NODES = { min: 2, max: 5 };
/** Milliseconds after each step, so that a tab can join before the job is over. */
export const STEP_MS = 60;

/** The options of a tab. */
export interface Job {
  /** Code of the room; `null` opens one. */
  room: string | null;
  backend: 'cpu' | 'webgpu';
  worldSize: number;
  transport: 'auto' | 'webrtc';
}

export interface Result {
  /** The world size at the end. */
  ranks: number;
  /** Digest of the final weights. */
  hash: string;
  /** The epoch and the samples of each committed step, of all ranks together. */
  steps: { epoch: number; indices: number[] }[];
  /** Number of steps that this tab has begun and that were lost with a generation. */
  repeated: number;
}
