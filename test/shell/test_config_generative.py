"""Generative models and the streams of their prompts, as the file declares them."""

from config_text import assert_refused, load, SIMPLE

from vig_governor.config.options import GenerativeOptions

BLOCK = """\
  writer:
    class: best_effort
    queue: {policy: fifo, capacity: 4}
    contract: {deadline_ms: 2000}
    cooperative: {tokens_per_second: 50, base_cost_us: 100, max_total_tokens: 32MORE}
    variants:
      - {id: only, backend_model: llm, profile: {p50_us: 600000, p99_us: 700000}}
"""
STREAM = """\
  questions:
    topic: /ask
    type: std_msgs/msg/String
    model: writer
    time_source: arrival
"""


def text(more='', stream=''):
    block = BLOCK.replace('MORE', f', {more}' if more else '')
    return SIMPLE.replace('streams:\n', f'{block}streams:\n') + stream


def line_of(whole, part):
    return next(number for number, line in enumerate(whole.splitlines(), 1) if part in line)


def test_the_tensors_have_names_by_default_and_the_file_can_give_others(tmp_path):
    config = load(tmp_path, text(), require_profiles=True)
    assert config.generative == {'writer': GenerativeOptions('PROMPT', 'MAX_TOKENS', 'TEXT')}
    more = ('prompt_tensor: p, max_tokens_tensor: m, text_tensor: t, tokens_tensor: n, '
            'end_tensor: e, prompt_template: "<{prompt}>", max_prompt_bytes: 9')
    config = load(tmp_path, text(more), require_profiles=True)
    assert config.generative['writer'] == GenerativeOptions('p', 'm', 't', 'n', 'e', '<{prompt}>',
                                                            9)


def test_each_generative_model_has_a_stream_for_the_jobs_of_the_service(tmp_path):
    config = load(tmp_path, text(), require_profiles=True)
    stream, = config.job_streams
    assert (stream.name, stream.model, stream.is_generative) == ('generate/writer', 'writer', True)
    assert config.notices == ()


def test_a_job_may_be_declared_to_run_whole(tmp_path):
    models = load(tmp_path, text('split: false')).system.models
    assert not models['writer'].cooperative.is_split
    assert load(tmp_path, text()).system.models['writer'].cooperative.is_split


def test_a_stream_of_prompts_needs_no_input_and_is_copied(tmp_path):
    config = load(tmp_path, text(stream=STREAM), require_profiles=True)
    stream = next(one for one in config.streams if one.name == 'questions')
    assert stream.is_generative and stream.transport == 'copy'
    assert stream.input.tensor == 'PROMPT'


def test_a_stream_of_prompts_with_an_input_or_another_type_is_refused(tmp_path):
    whole = text(stream=STREAM + '    input: {tensor: PROMPT, encoder: text}\n')
    assert_refused(tmp_path, whole, key='streams.questions.input', says=['remove it'],
                   line=line_of(whole, 'encoder: text'))
    whole = text(stream=STREAM.replace('String', 'Int32'))
    assert_refused(tmp_path, whole, key='streams.questions.type', value='std_msgs/msg/Int32',
                   says=['std_msgs/msg/String'], line=line_of(whole, 'Int32'))


def test_a_stream_of_frames_without_an_input_is_refused(tmp_path):
    line = next(one for one in SIMPLE.splitlines() if 'input:' in one)
    whole = SIMPLE.replace(line + '\n', '')
    name = next(iter(load(tmp_path, SIMPLE).streams)).name
    assert_refused(tmp_path, whole, key=f'streams.{name}.input', says=['is missing'],
                   line=line_of(whole, f'  {name}:'))


def test_a_template_without_a_place_for_the_prompt_is_refused(tmp_path):
    whole = text('prompt_template: "say"')
    assert_refused(tmp_path, whole, key='models.writer.cooperative.prompt_template', value='"say"',
                   says=['must contain {prompt} once'], line=line_of(whole, 'prompt_template'))
