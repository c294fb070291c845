"""All messages in Chinese, by the English sentence."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.i18n.messages.advice import OF_ADVICE_IN_CHINESE
from memcore.i18n.messages.commands import OF_COMMANDS_IN_CHINESE
from memcore.i18n.messages.files import OF_FILES_IN_CHINESE
from memcore.i18n.messages.formulas import OF_FORMULAS_IN_CHINESE
from memcore.i18n.messages.hub import OF_HUB_IN_CHINESE
from memcore.i18n.messages.jobs import OF_JOBS_IN_CHINESE
from memcore.i18n.messages.megatron import OF_MEGATRON_IN_CHINESE
from memcore.i18n.messages.models import OF_MODELS_IN_CHINESE
from memcore.i18n.messages.places import OF_PLACES_IN_CHINESE
from memcore.i18n.messages.plans import OF_PLANS_IN_CHINESE
from memcore.i18n.messages.reading import OF_READING_IN_CHINESE
from memcore.i18n.messages.servers import OF_SERVERS_IN_CHINESE
from memcore.i18n.messages.settings import OF_SETTINGS_IN_CHINESE
from memcore.i18n.messages.training import OF_TRAINING_IN_CHINESE

TABLES: tuple[Mapping[str, str], ...] = (
    OF_ADVICE_IN_CHINESE,
    OF_COMMANDS_IN_CHINESE,
    OF_FILES_IN_CHINESE,
    OF_HUB_IN_CHINESE,
    OF_FORMULAS_IN_CHINESE,
    OF_JOBS_IN_CHINESE,
    OF_MEGATRON_IN_CHINESE,
    OF_MODELS_IN_CHINESE,
    OF_PLACES_IN_CHINESE,
    OF_PLANS_IN_CHINESE,
    OF_READING_IN_CHINESE,
    OF_SERVERS_IN_CHINESE,
    OF_SETTINGS_IN_CHINESE,
    OF_TRAINING_IN_CHINESE,
)
MESSAGES_IN_CHINESE: Mapping[str, str] = {english: chinese for table in TABLES for english, chinese in table.items()}
