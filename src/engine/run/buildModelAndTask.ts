/**
 * Builds what a rank trains with: it loads the data, and creates the model and the loop. A rank of
 * a job with a pipeline builds its layers later, when it enters a world.
 */
import { checkTrainedFacts } from '../../jobs/dataDifference.ts';
import type { LoadDataOptions } from '../../jobs/fileSource.ts';
import type { WeightsFile } from '../../formats/weights/weightsFile.ts';
import type { EngineEvent, LoadProgress } from '../../protocol/events.ts';
import type { WrittenSample } from '../../protocol/runResult.ts';
import type { SampleFacts } from '../../spec/dataFacts.ts';
import { endsWithModel, type JobSpec } from '../../spec/job.ts';
import { isPipelineJob, TAB_MEMORY_BYTES } from '../../spec/pipeline.ts';
import type { DataPreview } from '../../spec/preview.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import type { ThreadActivity } from '../../util/activity.ts';
import type { Clock } from '../../util/clock.ts';
import type { OpenedDevice } from '../device/device.ts';
import type { SharedFileSlices } from '../files/sharedFileSlices.ts';
import { copyModelWeights, type ModelWeightsCopy } from '../model/modelFiles.ts';
import { setModelWeights } from '../model/modelWeights.ts';
import { PipelineOutputs } from '../model/pipelineOutputs.ts';
import { loadPipelineTask } from '../pipeline/pipelineTask.ts';
import { StageStep } from '../pipeline/stageStep.ts';
import { openStageMirrorStorage } from '../storage/mirrorFile.ts';
import type { RunState } from '../storage/runState.ts';
import type { QueryAnswerer } from '../tasks/inspection.ts';
import type { JobTask } from '../tasks/jobTask.ts';
import { loadJobTask } from '../tasks/loadJobTask.ts';
import { taskWithActivityReports } from '../tasks/taskWithActivityReports.ts';
import { SampleTextWriter } from '../tasks/sampleTextWriter.ts';
import { TextGenerator } from '../tasks/textGenerator.ts';
import type { OwnDataShard } from '../training/data/ownDataShard.ts';
import { ReplicaStep } from '../training/replicaStep.ts';
import { TrainingLoop } from '../training/trainingLoop.ts';

/** The options from which a run of this tab is built. */
export interface RunRankOptions {
  job: JobSpec;
  /**
   * The expected number of ranks. The batches for evaluation are chosen so that this number of
   * ranks share the held-out samples evenly.
   */
  worldSize: number;
  files: File[];
  /** This tab's slices of the files that ranks distribute. */
  shared: SharedFileSlices | null;
  /** The URL to which relative data URLs refer. */
  baseUrl: string;
  opened: OpenedDevice;
  clock: Clock;
  /** Names what this thread computes or loads. */
  activity: ThreadActivity;
  emit: (event: EngineEvent) => void;
  /** The weights from which the model starts, if it does not resume from a state. */
  weights: WeightsFile | null;
  isHidden: () => boolean;
  /**
   * Called when ranks have compared their states after `step`, and all states are equal. The run
   * waits for the returned promise.
   */
  onagreed?: (step: number) => Promise<void>;
  /** See `ReplicaStep`. */
  savesState?: (localRank: number) => boolean;
}

interface BuildOptions extends RunRankOptions {
  /** This tab's own data; `null` if all ranks have the same data. */
  shard: OwnDataShard | null;
  /** A state from which the model resumes. */
  from: RunState | null;
  /** The vocabulary of a resumed language model. `null`: it is made from the text. */
  vocabulary: Vocabulary | null;
  /** Texts that the run has written so far. */
  written: readonly WrittenSample[];
  /** Receives copies of the model with the best evaluation result so far. */
  onbest: (copy: ModelWeightsCopy) => void;
}

export interface BuiltRank {
  rank: ReplicaStep | StageStep;
  loop: TrainingLoop;
  /** `null` if ranks hold stages of the model. */
  task: JobTask | null;
  /** Answers queries about the whole model; `null` if ranks hold stages of it. */
  answerer: QueryAnswerer | null;
  /** Writes texts with a language model; `null` for other models. */
  texts: SampleTextWriter | null;
  /** Texts and files of a model whose layers are on several ranks; `null` for other models. */
  outputs: PipelineOutputs | null;
  /** The meaning of a language model's tokens; `null` for other models. */
  vocabulary: Vocabulary | null;
}

/** Milliseconds between two reports of the progress of loading. */
const PROGRESS_MS = 1000;

/**
 * @throws (rejects) DataError if the data cannot be used, or if the weights do not fit the model;
 *   DeviceError if the GPU fails.
 */
export async function buildModelAndTask(options: BuildOptions): Promise<BuiltRank> {
  const { job, emit } = options;
  emit(
    job.data.kind === 'synthetic'
      ? { type: 'warmup', stage: 'generating', message: 'Generating digits' }
      : { type: 'warmup', stage: 'data', message: 'Loading the data' },
  );
  return isPipelineJob(job) ? buildStage(options) : buildReplica(options);
}

async function buildReplica(options: BuildOptions): Promise<BuiltRank> {
  const { job, worldSize, opened, clock, activity, emit, isHidden, from, weights } = options;
  const { shard, vocabulary, onagreed, savesState, onbest } = options;
  const loaded = await activity.during('load the data', () =>
    shard ? shard.task() : loadJobTask(job, dataLoadOptions(options), worldSize, vocabulary),
  );
  const task = taskWithActivityReports(loaded, activity);
  const { queryModel } = task;
  try {
    const facts = sampleFactsOfTask(task);
    if (from?.agreed) checkTrainedFacts('The checkpoint', from.agreed, facts);
    if (weights) {
      if (weights.facts) checkTrainedFacts(weights.file, weights.facts, facts);
      await activity.during('load the weights', () => setModelWeights(queryModel.jobModel, weights));
    }
    const author = queryModel instanceof TextGenerator ? queryModel : null;
    const texts = author && endsWithModel(job) ? textsOf(author, options) : null;
    const answerer: QueryAnswerer = {
      model: queryModel,
      progress: () => ({ steps: loop.steps, stateHash: rank.stateHash() }),
    };
    const loopOptions = {
      plan: job,
      clock,
      device: opened.device,
      isHidden,
      emit: async (event: EngineEvent) => {
        emit(event);
        if (event.type === 'hashes' && event.agree && onagreed)
          await activity.during('save a checkpoint', () => onagreed(event.step));
      },
      keepBest: async () => onbest(await activity.during('copy the best model', () => copyModelWeights(answerer))),
    };
    const rank = await activity.during('warm up', () =>
      ReplicaStep.prepare({
        ...loopOptions,
        task,
        texts,
        from: weights ? 'model' : from,
        checkDevice: () => opened.check(),
        ...(savesState && { savesState }),
      }),
    );
    const loop = new TrainingLoop(rank, loopOptions);
    return { rank, loop, task, answerer, texts, outputs: null, vocabulary: author?.vocabulary ?? null };
  } catch (error) {
    task.dispose();
    throw error;
  }
}

async function buildStage(options: BuildOptions): Promise<BuiltRank> {
  const { job, opened, clock, activity, emit, isHidden, weights, vocabulary } = options;
  const task = await activity.during('load the data', () =>
    loadPipelineTask(job, dataLoadOptions(options), vocabulary),
  );
  if (weights?.facts) checkTrainedFacts(weights.file, weights.facts, task.facts);
  const outputs = new PipelineOutputs({ job, task, weights, emit });
  const loopOptions = { plan: job, clock, device: opened.device, isHidden, emit };
  const rank = await StageStep.prepare({
    ...loopOptions,
    task,
    checkDevice: () => opened.check(),
    activity,
    openMirrorStorage: openStageMirrorStorage,
    tabBytes: TAB_MEMORY_BYTES,
    outputs,
  });
  const loop = new TrainingLoop(rank, loopOptions);
  return { rank, loop, task: null, answerer: null, texts: null, outputs, vocabulary: outputs.vocabulary };
}

/**
 * Returns the options for loading a run's data. They request no preview of files that this tab's
 * user has chosen, because these were previewed when they were chosen.
 */
export function dataLoadOptions({
  job,
  files,
  shared,
  baseUrl,
  clock,
  activity,
  emit,
}: Pick<RunRankOptions, 'job' | 'files' | 'shared' | 'baseUrl' | 'clock' | 'activity' | 'emit'>): LoadDataOptions {
  /** When progress was last reported, and its unit. */
  let reported = { at: -Infinity, unit: '' };
  let began = { at: 0, done: 0 };
  const onprogress = (loading: LoadProgress): void => {
    activity.advance();
    const at = clock.now();
    const { unit, done, total } = loading;
    if (unit === reported.unit && done < total && at - reported.at < PROGRESS_MS) return;
    // A text of each tab's own is read twice.
    if (unit !== reported.unit || done < began.done) began = { at, done };
    reported = { at, unit };
    const rate = at > began.at ? { rate: (1000 * (done - began.done)) / (at - began.at) } : {};
    emit({ type: 'warmup', stage: 'data', message: 'Loading the data', loading: { ...loading, ...rate } });
  };
  const isPreviewed = job.data.kind !== 'url' && job.data.kind !== 'shared';
  return {
    // Only images are read in parts, while other parts arrive.
    ...(shared && job.job === 'images' ? { shared: shared.stored() } : { files: shared?.files() ?? files }),
    baseUrl,
    onprogress,
    onundecoded: (problem) => emit({ type: 'note', message: `A picture is left out: ${problem}` }),
    ...(!isPreviewed && { onpreview: (preview: DataPreview) => emit({ type: 'preview', preview, problem: null }) }),
  };
}

/** Returns the meaning of the task's samples; `null` if the job defines it. */
export function sampleFactsOfTask({ queryModel }: JobTask): SampleFacts | null {
  return queryModel instanceof TextGenerator ? null : queryModel.facts;
}

/** Returns the texts of a run. The writing of each text is reported to `activity`. */
function textsOf(author: TextGenerator, { activity, emit, written }: BuildOptions): SampleTextWriter {
  const { prompt, bigramLoss } = author;
  const sample = (): Promise<string | null> => activity.during('write a text', () => author.sample());
  return new SampleTextWriter({ prompt, bigramLoss, sample }, emit, written);
}
