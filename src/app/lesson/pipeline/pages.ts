/** The pages of the lesson about pipelines, in order. Their texts are in `locales/`. */
export const PIPELINE_PAGES = ['why', 'one', 'micro', 'bubble', 'turn', 'compare', 'training'] as const;

export type PipelinePage = (typeof PIPELINE_PAGES)[number];
