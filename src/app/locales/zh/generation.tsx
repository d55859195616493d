import type { Messages } from '../en/index.ts';

export const generation: Messages['generation'] = {
  title: '生成的文字',
  notTested: '隔一段时间用文章末尾来测试，这一段不参与训练。',
  tested: (loss, bigram, isBelow) =>
    `在不参与训练的文章末尾：每个字符 ${loss} 奈特；只统计哪个字符跟在哪个后面的表（二元模型）是 ${bigram}${isBelow ? '，已被超过 ✓' : ''}。`,
  samples: '训练过程中',
  noSamples: '模型在第一步之后生成一段样本，之后间隔越来越长。',
  after: (steps, loss) => `${steps} 步之后，损失 ${loss}`,
  ask: '续写文字',
  prompt: '开头',
  temperature: '温度',
  temperatureAbout: '温度为 0 时每次取最可能的字符，为 1 时按它认为的可能性抽取。文章里没有的字符会被略去。',
  generate: '生成',
  generating: '正在生成……',
  answered: (steps) => `${steps} 步之后`,
  result: (bigram, steps, time) =>
    `奈特每字符，在不参与训练的文章末尾（二元模型：${bigram}），共 ${steps} 步，用时 ${time}。`,
};
