/** Defines the options of the job form, and how each option changes the job; pure. */
import type { CodecFacts } from '../../spec/codecs.ts';
import { GPT_PRESET_NAMES, GPT_PRESETS, type GptPresetName } from '../../spec/gpt.ts';
import {
  parseJobOrProblem,
  CODECS,
  DEFAULT_JOB,
  jobDefaultsFor,
  JOB_FIELD_NAMES,
  learnsDigits,
  jobNeedsFiles,
  STRATEGIES,
  STRATEGY_NAMES,
  STRATEGY_SETTINGS,
  strategySupportsFeature,
  type JobSpec,
  type CodecSetting,
  type StrategyName,
} from '../../spec/job.ts';
import { learningMethodByName } from '../../spec/methods.ts';
import { isPipelineJob } from '../../spec/pipeline.ts';
import { uiMessages } from '../locales/index.ts';

/** Default learning rates. They train the built-in models mlp and cnn well. */
const USUAL_RATE: Record<JobSpec['optimizer'], number> = {
  sgd: 0.1,
  momentum: 0.05,
  nesterov: 0.05,
  adam: 0.002,
  adamw: 0.002,
};

/**
 * Changes the job. Fields with the default of the previous job get the default of the new job.
 * Fields that somebody set stay, except fields that depend on the data: model, target, task,
 * encoding, size, colours and changes of pictures, loss, metrics. The kind of data is also
 * replaced. The data of mnist becomes the address `folder`; if `folder` is `null`, every tab
 * chooses files. A lesson always gets the strategy `ddp`.
 */
export function withJob(spec: JobSpec, job: JobSpec['job'], folder: string | null): JobSpec {
  if (job === spec.job) return spec;
  const [before, usual] = [spec.job, job].map((one) => jobDefaultsFor(one, spec.strategy)) as [JobSpec, JobSpec];
  const untouched = JOB_FIELD_NAMES.filter((field) => spec[field] === before[field]);
  const { target, task, encoding, side, channels, augment, loss, metrics } = usual;
  const planned = {
    ...spec,
    ...Object.fromEntries(untouched.map((field) => [field, usual[field]])),
    job,
    model: modelFor(job, spec),
    target,
    task,
    encoding,
    side,
    channels,
    augment,
    loss,
    metrics,
  } as const;
  if (job === 'lesson') return { ...withStrategy(planned, DEFAULT_JOB.strategy), data: usual.data };
  if (!jobNeedsFiles(job)) return { ...planned, data: usual.data };
  // A server's folder contains IDX files, unless the server was started for a job other than
  // `mnist`.
  return { ...planned, data: job === 'mnist' && folder !== null ? { kind: 'url', url: folder } : { kind: 'files' } };
}

/**
 * Returns a model for the new job. Custom layers are kept only between the two jobs that learn
 * digits, because their samples have the same shape.
 */
function modelFor(job: JobSpec['job'], { job: before, model }: JobSpec): JobSpec['model'] {
  if (typeof model !== 'string') return learnsDigits(before) && learnsDigits(job) ? model : 'mlp';
  return job === 'table' ? 'mlp' : model;
}

/**
 * Changes the size of a language model, and the fields that depend on it. Only a model that is too
 * large for a tab is divided.
 */
export function withGptPreset(spec: JobSpec, name: GptPresetName): JobSpec {
  const { model, pipeline, ...plan } = GPT_PRESETS[name];
  const sized = { ...spec, ...plan, gpt: { ...spec.gpt, ...model } };
  if (pipeline !== null) return { ...withStrategy(sized, pipeline.strategy), ...pipeline };
  return isPipelineJob(spec) ? withStrategy(sized, DEFAULT_JOB.strategy) : sized;
}

/** Returns the preset of a language model; `null` if its sizes are custom. */
export function gptPresetOf({ gpt }: Pick<JobSpec, 'gpt'>): GptPresetName | null {
  const isOf = ({ model }: (typeof GPT_PRESETS)[GptPresetName]): boolean =>
    Object.entries(model).every(([size, value]) => gpt[size as keyof typeof model] === value);
  return GPT_PRESET_NAMES.find((name) => isOf(GPT_PRESETS[name])) ?? null;
}

/** The kinds of data that a user can choose from. */
export type DataSourceName = Exclude<JobSpec['data']['kind'], 'synthetic' | 'none'>;

/**
 * Changes the kind of data. No files are chosen yet. An address is `folder` until the user types
 * another one.
 */
export function withDataSource(spec: JobSpec, kind: DataSourceName, folder: string): JobSpec {
  if (kind === spec.data.kind) return spec;
  if (kind === 'url') return { ...spec, data: { kind, url: folder } };
  return { ...spec, data: kind === 'shared' ? { kind, files: [] } : { kind } };
}

/**
 * Changes the optimizer. The learning rate becomes the default of the new optimizer, unless
 * somebody set it.
 */
export function withOptimizer(spec: JobSpec, optimizer: JobSpec['optimizer']): JobSpec {
  const untouched = spec.learningRate === USUAL_RATE[spec.optimizer];
  return { ...spec, optimizer, learningRate: untouched ? USUAL_RATE[optimizer] : spec.learningRate };
}

/**
 * Changes what the run measures; with `null`, the run trains instead. The number of steps becomes
 * the default, unless somebody set another number that the new job may also have. If the strategy
 * does not support measurements, it becomes the default one.
 */
export function withMeasure(spec: JobSpec, measure: JobSpec['measure']): JobSpec {
  const fits = measure === null || strategySupportsFeature(spec.strategy, 'measure');
  const fitting = fits ? spec : withStrategy(spec, DEFAULT_JOB.strategy);
  const [before, usual] = [spec.measure, measure].map(
    (one) => jobDefaultsFor(spec.job, fitting.strategy, one).maxSteps,
  );
  const next = { ...fitting, measure };
  const isUsual = spec.maxSteps === before || 'problem' in parseJobOrProblem(next);
  return { ...next, maxSteps: isUsual ? usual! : spec.maxSteps };
}

/** Sets the learning rate that a range test found, and trains with it. */
export function withLearningRate(spec: JobSpec, learningRate: number): JobSpec {
  return { ...withMeasure(spec, null), learningRate };
}

export function strategyNamesForForm(): Record<StrategyName, string> {
  const { strategies } = uiMessages.value.job;
  return Object.fromEntries(STRATEGY_NAMES.map((name) => [name, strategies[name].name])) as Record<
    StrategyName,
    string
  >;
}

/** Returns the names of the codecs that the job can have. */
export function codecNamesForForm({ strategy }: JobSpec): Record<CodecSetting, string> {
  const { autoCodec } = uiMessages.value.job;
  return Object.fromEntries(
    STRATEGIES[strategy].codecs.map((codec) => [codec, codec === 'auto' ? autoCodec.option : optionOf(CODECS[codec])]),
  ) as Record<CodecSetting, string>;
}

function optionOf({ title, share }: CodecFacts): string {
  return share === null ? title : `${title} (${share})`;
}

/**
 * Changes the strategy. If the optimizer was the default of the previous strategy, it becomes the
 * default of the new one. Settings of strategies get their defaults, and so do fields whose values
 * the new strategy does not support.
 */
export function withStrategy(spec: JobSpec, strategy: StrategyName): JobSpec {
  if (strategy === spec.strategy) return spec;
  const [before, usual] = [spec.strategy, strategy].map((one) => jobDefaultsFor(spec.job, one)) as [JobSpec, JobSpec];
  const optimized = spec.optimizer === before.optimizer ? withOptimizer(spec, usual.optimizer) : spec;
  const fitting = strategySupportsFeature(strategy, 'measure') ? optimized : withMeasure(optimized, null);
  return {
    ...fitting,
    ...Object.fromEntries(STRATEGY_SETTINGS.map((setting) => [setting, usual[setting]])),
    strategy,
    codec: STRATEGIES[strategy].codecs.includes(spec.codec) ? spec.codec : usual.codec,
    shardOptimizer: strategySupportsFeature(strategy, 'shardOptimizer') ? spec.shardOptimizer : usual.shardOptimizer,
    precision: strategySupportsFeature(strategy, 'mixed') ? spec.precision : usual.precision,
  };
}

/**
 * Trains with one of the methods that a run has compared. Fields that not every method supports are
 * reset, because the comparison assumes their defaults.
 */
export function withMethod(spec: JobSpec, method: string): JobSpec {
  const { strategy, codec } = learningMethodByName(method);
  const { algorithm, shardOptimizer } = DEFAULT_JOB;
  return { ...withStrategy(withMeasure(spec, null), strategy), algorithm, shardOptimizer, codec };
}

/** The costs of a step depend on these fields, and on strategy and codec. */
const COST_FIELDS = ['job', 'model', 'hidden', 'gpt', 'side', 'channels', 'data', 'batchSize', 'precision'] as const;

/** Returns whether costs that were measured for one job are valid for the other. */
export function hasSameCosts(one: JobSpec, other: JobSpec): boolean {
  return COST_FIELDS.every((field) => JSON.stringify(one[field]) === JSON.stringify(other[field]));
}

/** Divides the model into `stages` stages. */
export function withStages(spec: JobSpec, stages: number): JobSpec {
  return { ...withStrategy(spec, 'pipeline'), stages };
}

/** Describes the job in one line. */
export function describeJob(spec: JobSpec): string {
  return uiMessages.value.job.describe(spec);
}
