/**
 * peergrad as a library: torch.distributed and DistributedDataParallel for browser tabs.
 *
 *     const group = await initProcessGroup({ server: location.origin, room: 'K7F-3QX' });
 *     const ddp = await DistributedDataParallel.create(model, group);
 *
 * @module peergrad
 */
export { ReduceOp } from './protocol/frame.ts';
export { ProcessGroup } from './collectives/processGroup.ts';
export type {
  AllReduceOptions,
  AllToAllOptions,
  MessageOptions,
  OpOptions,
  P2POp,
  ReduceOptions,
  ReduceScatterOptions,
  RootedOptions,
  SizesOptions,
} from './collectives/options.ts';
export type { TypedArray } from './collectives/dtypes.ts';
export type { FlightRecord, FlightRecording } from './protocol/flightRecording.ts';
export { Work } from './collectives/work.ts';
export { DistributedDataParallel } from './parallel/ddp/distributedDataParallel.ts';
export type { DistributedDataParallelOptions } from './parallel/ddp/options.ts';
export { GradScaler, type GradScalerOptions } from './parallel/backward/gradScaler.ts';
export type { ModelPass } from './parallel/backward/flatten.ts';
export type { Pass, PassOptions } from './parallel/backward/pass.ts';
export { convertSyncBatchNorm, SyncBatchNormalization } from './parallel/backward/syncBatchNorm.ts';
export type { JoinOptions } from './parallel/ddp/join.ts';
export type { ReducedPass } from './parallel/ddp/reduction.ts';
export { allReduceHook, fp16Hook, noopHook, type CommHook, type GradBucket } from './parallel/ddp/commHooks.ts';
export { DistributedSampler, type DistributedSamplerOptions } from './parallel/data/distributedSampler.ts';
export {
  ElasticSampler,
  type ElasticSamplerOptions,
  type ElasticSamplerState,
} from './parallel/data/elasticSampler.ts';
export {
  DataLoader,
  type DataLoaderOptions,
  type LabelledBatch,
  type LabelledSamples,
  type LoadBatch,
} from './parallel/data/dataLoader.ts';
export { DataPartitioner, Partition } from './parallel/data/dataPartitioner.ts';
export { readShard, type ReadShardOptions } from './parallel/data/shardedReader.ts';
export { createPowerSgdHook, type PowerSgdOptions } from './parallel/ddp/powerSgd.ts';
export { PeriodicModelAverager, type PeriodicModelAveragerOptions } from './parallel/strategies/modelAverager.ts';
export { PipelineStage, type LayerChain, type PipelineStageOptions } from './parallel/pipeline/pipelineStage.ts';
export {
  Schedule1F1B,
  ScheduleGPipe,
  type PipelineBatch,
  type PipelineScheduleOptions,
  type PipelineStepReport,
} from './parallel/pipeline/pipelineSchedule.ts';
export type { LayerPass, PipelineLayer } from './parallel/pipeline/pipelineLayer.ts';
export type { SequentialModel } from './parallel/pipeline/sequentialLayers.ts';
export { gpipe, idleShare, oneForwardOneBackward, type PipelinePlan } from './parallel/pipeline/schedules.ts';
export { DeviceMesh, initDeviceMesh, type MeshShape } from './parallel/groups/deviceMesh.ts';
export { DistributedMean } from './parallel/groups/distributedMean.ts';
export { ZeroRedundancyOptimizer } from './parallel/zero/zeroRedundancyOptimizer.ts';
export { optimizerOf, type TensorflowOptimizer } from './parallel/flat/optimizerOf.ts';
export { rankZeroFirst, rankZeroOnly } from './parallel/groups/rankZero.ts';
export {
  createOptimizer,
  type Optimizer,
  type OptimizerName,
  type OptimizerOptions,
  type OptimizerState,
} from './optim/index.ts';
export { openDevice, type DeviceChoice } from './library/device.ts';
export type { OpenedDevice } from './engine/device/device.ts';
export { destroyProcessGroup, initProcessGroup, type InitProcessGroupOptions } from './library/initProcessGroup.ts';
export {
  allGather,
  allGatherCoalesced,
  allReduce,
  allReduceCoalesced,
  allToAll,
  broadcast,
  broadcastCoalesced,
  gather,
  reduce,
  reduceScatter,
  scatter,
} from './library/functionalCollectives.ts';
export { recv, recvAny, send } from './library/functionalMessages.ts';
export type { ResultOf, Values } from './library/payload.ts';
export { elastic } from './library/elastic/elastic.ts';
export { ElasticState, type ElasticFields } from './library/elastic/elasticState.ts';
export type { ElasticOptions } from './library/elastic/elasticJob.ts';
export { distribute, DistributedModel, type DistributeOptions } from './library/distribute/distributedModel.ts';
export type {
  DistributedEvaluateArgs,
  DistributedEvaluateDatasetArgs,
  DistributedFitArgs,
  DistributedFitDatasetArgs,
} from './library/distribute/arguments.ts';
export { shardDataset } from './library/distribute/shardDataset.ts';
export { loadSafetensors, saveSafetensors } from './library/files/safetensors.ts';
export { loadCheckpoint, saveCheckpoint, type CheckpointState } from './library/files/checkpoint.ts';
export type { FileSource } from './library/files/fileSource.ts';
export type { LoadOptions, SaveOptions, SaveWeightsOptions } from './library/files/weights.ts';
export type { LocalModel, SavedModel } from './library/files/storedModel.ts';
export {
  imageFolder,
  parquet,
  table,
  type FileDataset,
  type ImageFolderOptions,
  type TableOptions,
} from './library/fileDatasets.ts';
export { downloadFile } from './util/download.ts';
export { Trainer, type TrainerOptions } from './library/trainer.ts';
export type { FitOptions, Loss, LossName, Samples } from './engine/tasks/tensorTask.ts';
export { loadData, type Dataset } from './jobs/index.ts';
export { parseJob, type JobSpec, type StrategyName } from './spec/job.ts';
export { type TrainingPlan } from './spec/plan.ts';
export type { EngineEvent } from './protocol/events.ts';
export type { RunResult } from './protocol/runResult.ts';
export { fromHalf, toHalf } from './util/float16.ts';
export {
  AbortError,
  DataError,
  DeviceError,
  DivergenceError,
  EarlyTerminationError,
  MismatchError,
  PeerGoneError,
  PeergradError,
  ProtocolError,
  RemovedError,
  RunOverError,
  SignalingError,
  StorageError,
  TimeoutError,
  UsageError,
  type ErrorContext,
} from './util/errors.ts';
