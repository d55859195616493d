import type { UiMessages } from '../en/index.ts';

export const termTexts: UiMessages['terms'] = {
  rank: {
    word: '编号（rank）',
    means:
      '每个参与训练的标签页都有一个编号（rank）：0、1、2……每一个都持有完整的模型副本；在流水线里，只持有模型的一段。',
  },
  'world size': { word: '总数（world size）', means: '一起训练的 rank 的个数。' },
  generation: {
    word: '成员代（generation）',
    means: '一个 generation 是一份固定的 rank 名单；有 rank 加入或离开时，就开始下一个 generation。',
  },
  gradient: { word: '梯度', means: '梯度指出：模型里的每个数该往哪个方向改，损失才会下降。' },
  'all-reduce': {
    word: '全归约（all-reduce）',
    means:
      '全归约把每个 rank 的一列数加起来，再让每个 rank 都得到总和。这里的数列是梯度：它被切成小块沿环传递，每个 rank 发送的都不超过自己数列的两倍。',
  },
  'reduce-scatter': {
    word: '归约散播（reduce-scatter）',
    means: '环形全归约的前一半：各块逐步相加，最后每个 rank 各有一块算完的总和。',
  },
  'all-gather': {
    word: '全收集（all-gather）',
    means: '环形全归约的后一半：算完的总和沿环传递并复制，最后每个 rank 都有全部总和。',
  },
  communication: { word: '通信', means: '一步之中，rank 用于与其他 rank 交换梯度的时间。' },
  computation: { word: '计算', means: '一步之中，rank 用于计算自己的梯度和更新参数的时间。' },
  overlapped: {
    word: '重叠（overlapped）',
    means: '如果 rank 在通信的同时进行计算，这部分通信就是重叠的。其余的通信是暴露的，这一步必须等它。',
  },
  dispatches: {
    word: '派发（dispatch）',
    means:
      '一次派发在 GPU 上启动一个计算着色器；一次提交把录好的派发送到 GPU。每一次都有额外的开销。表中是每步的中位数：派发 / 提交。',
  },
  stage: { word: '段', means: '流水线里由一个 rank 持有的那部分层。' },
  'micro-batch': { word: '微批', means: '一步的样本中的一份。各个微批一个接一个地通过流水线。' },
  activations: { word: '激活值', means: '各层在前向计算里算出的数。同一批样本的反向计算需要它们。' },
  bubble: { word: '气泡', means: '流水线填满和排空时，各 rank 等待的时间所占的比例。' },
  epoch: { word: '轮次（epoch）', means: '一个轮次就是把全部训练样本过一遍，由所有 rank 分担。' },
  share: { word: '份额', means: '一步的样本中由一个 rank 计算的部分。' },
  straggler: { word: '掉队者', means: '一步里最慢的 rank；其余的都要等它的数据块。' },
  'own loss': {
    word: '自己的损失',
    means: '在两次交换之间，每个 rank 只知道自己样本的结果。所以这里的损失和每秒样本数只是本 rank 的。',
  },
  'state hash': {
    word: '状态指纹',
    means: '状态指纹是全部参数和优化器状态的哈希：指纹相同，就说明各 rank 一个比特都不差。',
  },
};
