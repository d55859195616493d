/**
 * Names that schemas and code choose from: those of a job first. They stand apart from the schemas,
 * so that a bundle may have them without valibot.
 */

/**
 * `gpt` learns to write as a text does. `lesson` trains nothing: its ranks add up a few numbers by
 * hand (`lesson.ts`), and what it says of a training is not used.
 */
export const JOB_NAMES = ['digits', 'mnist', 'images', 'table', 'gpt', 'lesson'] as const;
/** Of the jobs that do not write. */
export const MODEL_NAMES = ['mlp', 'cnn'] as const;
export const OPTIMIZER_NAMES = ['sgd', 'momentum', 'nesterov', 'adam', 'adamw'] as const;

/**
 * How the learning rate goes: it stays, or falls as a cosine does to a tenth. A range test is a run
 * that looks for a rate: it tries ever higher ones until the loss explodes, and leaves the model as
 * it was.
 */
export const SCHEDULE_NAMES = ['constant', 'cosine', 'range-test'] as const;

/** How ranks learn together: src/parallel/strategies has a file for each. */
export const STRATEGY_NAMES = [
  'ddp',
  'parameter-server',
  'async-parameter-server',
  'data-parallel',
  'local-sgd',
  'diloco',
] as const;

/**
 * How gradients travel, see `codecsOf`: `fp16` and `int8` are codecs of an all-reduce, `powersgd`
 * sends thin matrices. From what loses nothing to what loses most.
 */
export const CODEC_NAMES = ['fp32', 'fp16', 'int8', 'powersgd'] as const;

/**
 * What a job may say: with `auto` ranks time their first steps and choose one of the others
 * together.
 */
export const PLANNED_CODECS = [...CODEC_NAMES, 'auto'] as const;

export type OptimizerName = (typeof OPTIMIZER_NAMES)[number];
export type ScheduleName = (typeof SCHEDULE_NAMES)[number];
export type ModelName = (typeof MODEL_NAMES)[number];
export type StrategyName = (typeof STRATEGY_NAMES)[number];
/** The job's: collectives know of fewer. */
export type JobCodec = (typeof CODEC_NAMES)[number];
export type PlannedCodec = (typeof PLANNED_CODECS)[number];

/**
 * How ranks are linked: all by WebRTC, or where both are tabs of one browser by a message port,
 * which is faster by far and shows nothing of a network.
 */
export const TRANSPORT_NAMES = ['webrtc', 'auto'] as const;
export type TransportName = (typeof TRANSPORT_NAMES)[number];

/**
 * What a rank does in a step. On its own: `compute` until gradients can be read, `readback` of
 * them, `update` of the parameters. With others, beside the former: `send` a chunk, `wait` for the
 * left neighbour's, `reduce` it; or `exchange` what goes no ring.
 */
export const SEGMENT_KINDS = ['compute', 'readback', 'update', 'send', 'wait', 'reduce', 'exchange'] as const;
