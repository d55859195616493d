import type { Words } from '../en/index.ts';

export const run: Words['run'] = {
  simulated: (ranks) => `模拟：这 ${ranks} 个 rank 并不存在。时间由环的计划和虚构的网络算出，损失和准确率来自公式。`,
};
