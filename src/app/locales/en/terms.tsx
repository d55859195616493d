/** Definitions, a sentence or two each; the key is the English term. */
export const termTexts = {
  rank: {
    word: 'rank',
    means:
      'A rank is one tab of the job, with its number: 0, 1, 2, … Every rank holds a whole copy of the model or, in a pipeline, one stage of it.',
  },
  'world size': { word: 'world size', means: 'The world size is the number of ranks that train together.' },
  generation: {
    word: 'generation',
    means: 'A generation is one fixed list of ranks. When a rank joins or leaves, the next generation begins.',
  },
  gradient: {
    word: 'gradient',
    means: 'A gradient shows, for every number of the model, in which direction to change it to lower the loss.',
  },
  'all-reduce': {
    word: 'all-reduce',
    means:
      'An all-reduce adds up one list of numbers per rank, and every rank receives the sum. Here the lists are gradients, cut into chunks that travel round a ring; no rank sends more than twice its own list.',
  },
  'reduce-scatter': {
    word: 'reduce-scatter',
    means:
      'Reduce-scatter is the first half of a ring all-reduce: chunks are added up, until every rank has one finished sum.',
  },
  'all-gather': {
    word: 'all-gather',
    means:
      'All-gather is the second half of a ring all-reduce: the finished sums are copied from rank to rank, until every rank has all of them.',
  },
  communication: {
    word: 'communication',
    means: 'Communication is the part of a step that a rank spends exchanging gradients with others.',
  },
  computation: {
    word: 'computation',
    means: 'Computation is the part of a step that a rank spends on gradients and updates of its own.',
  },
  overlapped: {
    word: 'overlapped',
    means:
      'Communication is overlapped if the rank computes at the same time. The rest of the communication is exposed: the step waits for it.',
  },
  share: {
    word: 'share',
    means: 'A share is the part of the samples of a step that one rank computes.',
  },
  dispatches: {
    word: 'dispatches',
    means:
      'A dispatch starts one compute shader on the GPU; a submit sends recorded dispatches to the GPU. Each dispatch and each submit costs time. The table shows medians for a step: dispatches / submits.',
  },
  stage: {
    word: 'stage',
    means: 'A stage is the part of a model’s layers that one rank of a pipeline holds.',
  },
  'micro-batch': {
    word: 'micro-batch',
    means: 'A micro-batch is a part of the samples of a step. Micro-batches follow each other through a pipeline.',
  },
  activations: {
    word: 'activations',
    means:
      'Activations are what the layers computed in a forward pass. The backward pass of the same samples needs them.',
  },
  bubble: {
    word: 'bubble',
    means: 'The bubble is the share of time in which the ranks of a pipeline wait while it fills and drains.',
  },
  epoch: {
    word: 'epoch',
    means: 'An epoch is one pass over all training samples, divided among the ranks.',
  },
  straggler: {
    word: 'straggler',
    means: 'A straggler is the slowest rank of a step; the others wait for its chunks.',
  },
  'own loss': {
    word: 'own loss',
    means:
      'Between two exchanges, a rank knows only the results of its own samples. So the loss and the samples per second shown here are those of this rank.',
  },
  'state hash': {
    word: 'state hash',
    means:
      'A state hash is a fingerprint of all parameters and optimizer state: equal hashes mean that ranks agree to the last bit.',
  },
};
