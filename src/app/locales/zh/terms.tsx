import type { Messages } from '../en/index.ts';

export const terms: Messages['terms'] = {
  rank: {
    word: '编号（rank）',
    means: '每个参与训练的标签页都有一个编号（rank）：0、1、2……每一个都持有完整的模型副本。',
  },
  'world size': { word: '总数（world size）', means: '一起训练的标签页的个数。' },
  'all-reduce': {
    word: '全归约（all-reduce）',
    means:
      '全归约把每个 rank 的一列数加起来，再让每个 rank 都得到总和。这里的数列是梯度：它被切成小块沿环传递，所以谁发送的都不会超过自己数列的两倍。',
  },
  epoch: { word: '轮次（epoch）', means: '一个轮次就是把全部训练样本过一遍，由所有 rank 分担。' },
  straggler: { word: '掉队者', means: '一步里最慢的 rank；其余的都要等它的数据块。' },
  gradient: { word: '梯度', means: '梯度告诉我们：模型里的每个数该往哪个方向改，损失才会下降。' },
  'own loss': {
    word: '自己的损失',
    means: '在两次交换之间，每个 rank 只知道自己样本的表现：这里的损失和速度只是本 rank 的。',
  },
  communication: {
    word: '通信',
    means: '通信是交换梯度所花的时间。如果同时还在做别的事（例如从 GPU 读取下一批梯度），这段时间就被“隐藏”了。',
  },
  'state hash': {
    word: '状态指纹',
    means: '状态指纹是全部参数和优化器状态的哈希：指纹相同，就说明各 rank 一个比特都不差。',
  },
};
