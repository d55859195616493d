/** The options of a tab's part in a run, and the remains of it when its GPU is lost. */
import type { WeightsFile } from '../../jobs/weights/weightsFile.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import type { WrittenSample } from '../../protocol/runResult.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { Clock } from '../../util/clock.ts';
import type { OpenedDevice } from '../device/device.ts';
import type { ModelCopy } from '../files/modelFiles.ts';
import type { SharedFiles } from '../files/sharedFiles.ts';
import type { RunState } from './runState.ts';

/** Objects of a run, beside its state, that survive the loss of the GPU. */
export interface CarryOver {
  /** The model that tested best, if the job asks for it. */
  best: ModelCopy | null;
  /** Texts that a language model has written. */
  samples: readonly WrittenSample[];
  /** Weights that the run began with. A rank without a state begins with them again. */
  weights: WeightsFile | null;
}

export interface RunParticipantOptions {
  job: JobSpec;
  /** The room's number for the run. */
  run: number;
  /** Ranks that are expected: held-out samples are tested in batches that they share evenly. */
  worldSize: number;
  files: File[];
  /** This tab's slices of the files that ranks distribute. */
  shared: SharedFiles | null;
  /** Base of relative data URLs. */
  baseUrl: string;
  opened: OpenedDevice;
  clock: Clock;
  emit: (event: EngineEvent) => void;
  /** A saved state to resume from. */
  from: RunState | null;
  /** Objects of the same run from before the GPU was lost. */
  carryOver: CarryOver | null;
  /** Weights that the model begins with if it resumes from no state. */
  weights: WeightsFile | null;
  isHidden: () => boolean;
  /** Called when ranks have compared their states after `step` and all are equal; is awaited. */
  onagreed?: (step: number) => Promise<void>;
}
