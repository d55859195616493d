/**
 * Names of jobs, models, strategies and other choices. They are separate from the schemas, so that
 * a bundle can include them without valibot.
 */

/**
 * Names of jobs. `gpt` trains a language model. `lesson` trains nothing: its ranks add up a few
 * numbers, one step at a time (`lesson.ts`), and the fields about training are ignored.
 */
export const JOB_NAMES = ['digits', 'mnist', 'images', 'table', 'gpt', 'lesson'] as const;

/**
 * Random changes of training pictures, in the order in which they are made; see
 * `src/jobs/images/augment.ts`.
 */
export const AUGMENT_NAMES = ['flip', 'shift', 'colour'] as const;
export type AugmentName = (typeof AUGMENT_NAMES)[number];

/** Built-in models of all jobs except `gpt`. */
export const BUILT_IN_MODEL_NAMES = ['mlp', 'cnn'] as const;
export const OPTIMIZER_NAMES = ['sgd', 'momentum', 'nesterov', 'adam', 'adamw'] as const;

/** Schedules of the learning rate: constant, or falling to a tenth along a cosine. */
export const RATE_SCHEDULE_NAMES = ['constant', 'cosine'] as const;

/**
 * Measurements that a run can take instead of training a model. `methods`: compares strategies and
 * codecs (`methods.ts`). `learning-rate`: a range test, which raises the rate until the loss
 * explodes. Both leave the model unchanged.
 */
export const RUN_MEASUREMENT_NAMES = ['methods', 'learning-rate'] as const;

export type OptimizerName = (typeof OPTIMIZER_NAMES)[number];
export type RateScheduleName = (typeof RATE_SCHEDULE_NAMES)[number];
export type RunMeasurementName = (typeof RUN_MEASUREMENT_NAMES)[number];
export type BuiltInModelName = (typeof BUILT_IN_MODEL_NAMES)[number];

/**
 * How ranks are linked. `webrtc`: always by WebRTC. `auto`: tabs of one browser are linked by a
 * message port, other tabs by WebRTC. A message port is much faster than WebRTC but does not behave
 * like a network.
 */
export const TRANSPORT_NAMES = ['webrtc', 'auto'] as const;
export type TransportName = (typeof TRANSPORT_NAMES)[number];

/**
 * Precision of matrix products on GPUs. `full`: float32. `mixed`: factors are rounded to float16,
 * and products are summed in float32. A rank whose GPU cannot do this trains in full precision.
 */
export const PRECISION_NAMES = ['full', 'mixed'] as const;

/**
 * How a step's samples are divided among ranks. `speed`: by the measured speeds of the ranks, if
 * they differ. `equal`: equally.
 */
export const BALANCE_NAMES = ['speed', 'equal'] as const;

/**
 * Why ranks have their shares of a step. `equal`: this run never divides by speed. `unknown`:
 * speeds are not measured yet. `similar`: unequal shares would save too little. `speed`: by speed.
 * `overhead`: smaller passes cost more than unequal shares would save.
 */
export const WORK_SHARE_REASONS = ['equal', 'unknown', 'similar', 'speed', 'overhead'] as const;
export type WorkShareReason = (typeof WORK_SHARE_REASONS)[number];

/**
 * Activities of a rank in a step. Reading of samples: `data`. Computation: `compute` (until the
 * first gradients are read from the device), `readback` (until all gradients are read), `update`
 * (of parameters). Communication, which may overlap with computation: `send` (a chunk), `wait` (for
 * the left neighbour's chunk), `reduce` (add that chunk). If the algorithm is not a ring, all
 * communication is `exchange`. In a pipeline, a rank computes `forward` and `backward` passes
 * instead of `compute`, and waits when it does nothing else.
 */
export const STEP_SEGMENT_KINDS = [
  'compute',
  'readback',
  'update',
  'send',
  'wait',
  'reduce',
  'exchange',
  'forward',
  'backward',
  'data',
] as const;

/**
 * Kernels of WebGPU. `own`: those of src/gpu/kernels. `stock`: those of TensorFlow.js. Each tab has
 * its own choice.
 */
export const GPU_KERNEL_CHOICES = ['own', 'stock'] as const;
export type GpuKernelChoice = (typeof GPU_KERNEL_CHOICES)[number];

/**
 * Encodings of texts and tables that people's files may have. UTF-16 is recognized, whatever is
 * chosen. The names are those of `TextDecoder`.
 */
export const TEXT_ENCODINGS = [
  'utf-8',
  'gb18030',
  'big5',
  'shift_jis',
  'euc-kr',
  'windows-1252',
  'windows-1250',
  'windows-1251',
] as const;
export type TextEncodingName = (typeof TEXT_ENCODINGS)[number];
