import type { Messages } from '../en/index.ts';

export const written: Messages['written'] = {
  title: '它写的文字',
  notTested: '时不时用文章末尾来测试它，这一段它没有学过。',
  tested: (loss, bigram, isBelow) =>
    `在没有学过的文章末尾：每个字符 ${loss} 奈特；只统计哪个字符跟在哪个后面的表（二元模型）是 ${bigram}${isBelow ? '，已被超过 ✓' : ''}。`,
  samples: '学习过程中',
  noSamples: '第一步之后它会写一段，之后越来越少。',
  after: (steps, loss) => `${steps} 步之后，损失 ${loss}`,
  ask: '让它接着写',
  prompt: '开头',
  temperature: '温度',
  temperatureAbout: '温度为 0 时每次取最可能的字符，为 1 时按它认为的可能性抽取。文章里没有的字符会被略去。',
  write: '写',
  writing: '正在写……',
  answered: (steps) => `${steps} 步之后`,
  result: (bigram, steps, time) =>
    `奈特每字符，在没有学过的文章末尾（二元模型：${bigram}），共 ${steps} 步，用时 ${time}。`,
};
