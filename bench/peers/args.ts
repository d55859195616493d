/** The models of `bench peers`, and what its page and PyTorch receive and report. */

export const BACKENDS = ['webgpu', 'wasm'] as const;
export type PeerBackend = (typeof BACKENDS)[number];

/** Libraries in a tab, each in a worker. `threads`: peergrad with a thread for each core. */
export const TAB_PEERS = ['peergrad', 'threads', 'jaxjs', 'tfjs'] as const;
export type TabPeer = (typeof TAB_PEERS)[number];
/** PyTorch computes on the CPU, so it is compared with WebAssembly only. */
export const PEERS = [...TAB_PEERS, 'pytorch'] as const;
export type PeerName = (typeof PEERS)[number];

/** For each model, the samples of a step, and its backends. */
export const MODELS = {
  mlp: { batch: 32, backends: BACKENDS },
  'mlp-1024': { batch: 32, backends: BACKENDS },
  cnn: { batch: 32, backends: BACKENDS },
  'gpt-tiny': { batch: 8, backends: BACKENDS },
  'gpt-small': { batch: 1, backends: BACKENDS },
  // nanoGPT's recipe for a CPU has 12 windows a step: those of two tabs.
  nanogpt: { batch: 6, backends: ['wasm'] as readonly PeerBackend[] },
};
export type ModelName = keyof typeof MODELS;
export const MODEL_NAMES = Object.keys(MODELS) as ModelName[];

/** Batches of samples. Step s trains on batch s modulo this number. */
export const BATCHES = 8;

/** Adam's settings in all libraries. */
export const ADAM = { learningRate: 0.001, beta1: 0.9, beta2: 0.999, epsilon: 1e-8 } as const;

/**
 * What libraries that do not share peergrad's model compute with. Arrays are in base64; pictures
 * and kernels are [channels, height, width].
 */
export interface Problem {
  model: ModelName;
  /** Shape of each parameter, in forward order. */
  shapes: number[][];
  /** float32: the parameters one after the other. */
  weights: string;
  /** Heads of attention; 0 in a model of pictures. */
  heads: number;
  /** All batches: float32 [samples, 28 * 28], or int32 [samples, context]. */
  inputs: string;
  /** int32: the class of each sample, or the token that follows each token. */
  labels: string;
}

export interface OpenArgs {
  peer: TabPeer;
  model: ModelName;
  backend: PeerBackend;
  /** `null`: the library makes it. */
  problem: Problem | null;
}

/** A library that trains one model. */
export interface Peer {
  /** Takes a step on a batch of samples, and resolves with the loss before it, in nats. */
  step(batch: number): Promise<number>;
  /** Only peergrad has it. */
  problem?(): Promise<Problem>;
}

export interface Turn {
  /** Milliseconds of a step. */
  ms: number;
  losses: number[];
}
