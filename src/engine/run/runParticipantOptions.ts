/**
 * The options of a tab's part in a run, and the objects that can be reused after its GPU was lost.
 */
import type { WeightsFile } from '../../formats/weights/weightsFile.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { WrittenSample } from '../../protocol/runResult.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { Activity } from '../../util/activity.ts';
import type { Clock } from '../../util/clock.ts';
import type { OpenedDevice } from '../device/device.ts';
import type { ModelCopy } from '../model/modelFiles.ts';
import type { SharedFiles } from '../files/sharedFiles.ts';
import type { RunState } from '../storage/runState.ts';

/** Objects of a run, in addition to its state, that are still usable after the GPU was lost. */
export interface CarryOver {
  /** The model with the best evaluation result, if the job keeps it. */
  best: ModelCopy | null;
  /** Texts that a language model has written so far. */
  samples: readonly WrittenSample[];
  /** The weights from which the run started. A rank without a state starts from them again. */
  weights: WeightsFile | null;
}

export interface RunParticipantOptions {
  job: JobSpec;
  /** The number of the run in its room. */
  run: number;
  /**
   * The expected number of ranks. The batches for evaluation are chosen so that this number of
   * ranks share the held-out samples evenly.
   */
  worldSize: number;
  files: File[];
  /** This tab's slices of the files that ranks distribute. */
  shared: SharedFiles | null;
  /** The URL to which relative data URLs refer. */
  baseUrl: string;
  opened: OpenedDevice;
  clock: Clock;
  /** Names what this thread computes or loads. */
  activity: Activity;
  emit: (event: EngineEvent) => void;
  /** A saved state from which the run resumes. */
  from: RunState | null;
  /** Objects of the same run that were kept when the GPU was lost. */
  carryOver: CarryOver | null;
  /** The weights from which the model starts, if it does not resume from a state. */
  weights: WeightsFile | null;
  isHidden: () => boolean;
  /**
   * Called when ranks have compared their states after `step`, and all states are equal. The run
   * waits for the returned promise.
   */
  onagreed?: (step: number) => Promise<void>;
  /** See `TrainingLoop`. */
  savesState?: (localRank: number) => boolean;
}
